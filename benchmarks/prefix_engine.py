"""The torch engine warm against cold: time to the first token, whole answers, exactness, costs.

    python benchmarks/prefix_engine.py [--smoke] [--json OUT] [--cache FOLDER] [--part NAME]

The model is the packaged SmolLM2-135M in float32, on one thread. Each round asks the same prompt
cold (as a tenant nobody has heard of) and warm (its prefix is kept), taking turns; CPU time of the
process, medians. ``P`` tokens are kept, 48 are new, an answer has 32. Parts, all by default:

``speed``: what a kept prefix saves, to the first token and in all.
``identity``: prompts that share system prompts, in memory that is too small for them, with a disk
shelf and a restart in the middle: answers of three tokens and their logits against those of a run
without any cache.
``cost``: looking up and keeping 2,000 tokens that were never seen, and bringing tokens back from
memory and from disk, each as a share of computing them.
``int8``: how far the int8 shelf moves what is said: 500 tokens behind 592 kept ones, four texts.

Where torch is not installed, it says so and ends.
"""

import argparse
import asyncio
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from report import parse_arguments, print_table, write

from stepwell.engines.torch.process import TorchSettings, packaged_weights


def measure(options: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    """Return the rows of each part."""
    import engine_parts as parts  # noqa: PLC0415  (it imports torch)
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415

    from stepwell.assembly.torch_parts import load_for, put_together  # noqa: PLC0415

    transformers_logging.disable_progress_bar()
    sizes = parts.SMOKE if options.smoke else parts.FULL
    results: dict[str, list[dict[str, object]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = TorchSettings(
            weights=str(packaged_weights()),
            model="smollm2",
            cache=options.cache or "build/torch",
            kv_folder=str(Path(folder) / "kv"),
            memory_bytes=2 << 30,
        )
        loaded = load_for(settings)
        alone = replace(settings, disk_bytes=0)
        work: dict[str, Callable[[], list[dict[str, object]]]] = {
            "speed": lambda: asyncio.run(parts.speed(put_together(alone, loaded), sizes)),
            "identity": lambda: parts.identity(loaded, settings, sizes),
            "cost": lambda: parts.cost(loaded, settings, sizes),
            "int8": lambda: parts.int8(loaded, sizes),
        }
        for name, run in work.items():
            if options.part in {None, name}:
                print(f"-- {name}", flush=True)
                results[name] = run()
                print_table(results[name], list(results[name][0]))
    return results


def main() -> None:
    """Run the benchmark."""
    options = parse_arguments(
        __doc__ or "",
        cache="folder for the converted model; build/torch by default",
        part="only this part: speed, identity, cost, int8",
    )
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed (scripts/setup): nothing is measured")
        sys.exit(0)
    write("prefix_engine", measure(options), options.json)


if __name__ == "__main__":
    main()
