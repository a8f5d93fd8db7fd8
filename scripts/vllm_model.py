"""Turns the bundled weights, a GGUF file, into a folder that vLLM loads.

    python vllm_model.py WEIGHTS.gguf FOLDER

Needs torch, transformers, gguf and accelerate, which scripts/vllm-suite installs.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(weights: Path, folder: Path) -> None:
    """Write weights in bfloat16, configuration and tokenizer; the folder appears when it is whole.

    Takes half a minute.
    """
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.bfloat16
    )
    # The weights are not quantised any more, which the model does not know.
    model.hf_quantizer = None
    model.is_quantized = False
    model.quantization_method = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    aside = folder.with_name(f"{folder.name}.aside")
    model.save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    aside.rename(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
