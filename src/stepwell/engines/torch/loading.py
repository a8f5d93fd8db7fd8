"""From a model's files to a `Model` and its tokenizer."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.cache_utils import DynamicCache, DynamicLayer

from stepwell.core.errors import ConfigError
from stepwell.engines.torch.conversion import converted
from stepwell.engines.torch.digests import text_digest, weights_digest
from stepwell.engines.torch.kv_shape import KvShape
from stepwell.engines.torch.model import Model, ModelFacts
from stepwell.engines.weights import digest_of

Dtype = Literal["float32", "bfloat16"]

_DTYPES: dict[Dtype, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model and what turns words into its tokens."""

    model: Model
    tokenizer: PreTrainedTokenizerFast


def load(path: Path, *, name: str, dtype: Dtype, cache: Path) -> Loaded:
    """Load a model. Runs no code that comes with it, and asks nobody over the network.

    Takes a second for 135 million weights; the first time, a GGUF file is converted, which takes
    20 s more. Blocks.

    Args:
        path: A folder with ``config.json``, ``tokenizer.json`` and weights in safetensors, or a
            GGUF file.
        name: It is served under.
        dtype: It is computed in. What is said of exactness holds for float32.
        cache: Folder for converted models and digests.

    Raises:
        ConfigError: It is not a model this engine can run; the message says why.
        OSError: It cannot be read, or ``cache`` cannot be written.
    """
    folder = path
    if path.is_file():
        folder = converted(path, digest_of(path, cache / f"{path.name}.json"), cache)
    weights = weights_digest(folder, cache)
    try:
        network = AutoModelForCausalLM.from_pretrained(
            folder, dtype=_DTYPES[dtype], local_files_only=True, trust_remote_code=False
        ).eval()
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except (ValueError, KeyError, RuntimeError, OSError, SafetensorError) as error:
        raise ConfigError(f"{folder} cannot be loaded: {error}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ConfigError(f"{folder} has no tokenizer.json")
    settings = network.config
    facts = ModelFacts(
        name=name,
        weights=weights,
        tokenizer=text_digest(tokenizer.backend_tokenizer.to_str()),
        rope=json.dumps(getattr(settings, "rope_parameters", None), sort_keys=True, default=str),
        shape=_shape(settings, _DTYPES[dtype], folder),
        context_tokens=settings.max_position_embeddings,
        end_tokens=_end_tokens(network, tokenizer),
        vocabulary=settings.vocab_size,
    )
    return Loaded(Model(network, facts), tokenizer)


def _shape(settings: PreTrainedConfig, dtype: torch.dtype, folder: Path) -> KvShape:
    """Return the shape of its keys and values.

    Raises:
        ConfigError: They are not one row for each token and layer.
    """
    layers = DynamicCache(config=settings).layers
    if len(layers) != settings.num_hidden_layers or any(
        type(layer) is not DynamicLayer for layer in layers
    ):
        raise ConfigError(
            f"{folder}: only models that attend to all tokens in all layers can be used;"
            " this one has sliding windows, or layers of another kind"
        )
    heads = settings.num_attention_heads
    size = getattr(settings, "head_dim", None) or settings.hidden_size // heads
    return KvShape(len(layers), getattr(settings, "num_key_value_heads", heads), size, dtype)


def _end_tokens(network: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> frozenset[int]:
    told = network.generation_config.eos_token_id
    ends = told if isinstance(told, list) else [told]
    return frozenset(end for end in (*ends, tokenizer.eos_token_id) if isinstance(end, int))
