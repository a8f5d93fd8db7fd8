"""What a hit on other words costs, and what looking for one adds to a miss.

    OPENBLAS_NUM_THREADS=1 python benchmarks/semantic_hit.py [--smoke] [--json OUT]

Two parts, in one run. *Layer*: `SemanticLayer.lookup` in this process over an index of 1,000 and
10,000 points in one partition (vectors near the questions' own, so that neighbours are many), with
the real embedder in its own process: with a question nobody has asked before, and with one whose
vector is known, which is all but the embedding; beside it numpy's bare product of all vectors with
the question's, and the bare embedding. *Gateway*: one worker, one connection, every question asked
once: exact hits, hits on other words, misses that were looked for in vain, and misses of a class
that has the exact layer only; the model server takes no time of its own.
"""

import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from load import chat_body, http_request, send
from peers import start_gateway, start_upstream
from processes import exit_on_sigterm, leave_the_first_cpu
from report import parse_arguments, print_table, write

from stepwell.assembly.deciding import calibration_of
from stepwell.assembly.environment import cache_dir
from stepwell.assembly.semantic import make_comparison
from stepwell.assembly.settings_semantic import Semantic
from stepwell.core.clock import SystemClock
from stepwell.core.entry import Phrasing
from stepwell.core.events import Event
from stepwell.core.likeness import Match, Terms
from stepwell.core.names import CacheKey, Namespace, Partition, Position
from stepwell.core.points import Group, Point
from stepwell.core.vectors import Vectors
from stepwell.embedding.recipes import E5
from stepwell.embedding.remote import RemoteEmbedder
from stepwell.embedding.supervisor import EmbedderAddress, EmbedderProcess
from stepwell.semantic.acceptance.threshold import Threshold
from stepwell.semantic.denials import Denials
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.manifest import Identity
from stepwell.semantic.index.own import OwnIndex
from stepwell.semantic.layer import SemanticLayer, Tolerances

PARTITION = Partition(bytes(32))
PATIENCE_SECONDS = 120.0

_VERBS = "return wash store paint carry repair sell insure measure move clean lift".split()
_THINGS = (
    "a leather jacket,a wooden table,an old piano,a garden hose,a mountain bike,a wedding dress,"
    "a gas stove,a camping tent,a fish tank,a baby seat,a wool carpet,a steel ladder,a glass door,"
    "a copper pot,a paper lamp,a silk scarf,a stone statue,a rubber boat"
).split(",")


class Nobody:
    """Hears events and forgets them."""

    def emit(self, event: Event) -> None:
        """Forget."""


def questions(count: int) -> list[tuple[str, str]]:
    """Return pairs of questions that have one answer."""
    pairs = [
        (f"How do I {verb} {thing}?", f"What is the best way to {verb} {thing}?")
        for thing in _THINGS
        for verb in _VERBS
    ]
    return pairs[:count]


def spread(known: Vectors, count: int) -> Vectors:
    """Return ``count`` unit vectors around ``known`` ones, at cosines of 0.75 to 0.98."""
    chance = np.random.default_rng(7)
    noise = chance.standard_normal((count, known.shape[1])).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    cosine = chance.uniform(0.75, 0.98, (count, 1)).astype(np.float32)
    base = known[chance.integers(len(known), size=count)]
    mixed = cosine * base + np.sqrt(1 - cosine**2) * noise
    unit: Vectors = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    return unit


def point(number: int, text: str) -> Point:
    """Return a point that never expires."""
    return Point(
        partition=PARTITION,
        key=CacheKey(hashlib.sha256(b"%d" % number).digest()),
        text=text,
        temperature=0.0,
        expires_at=4e9,
        position=Position(number + 1),
        group=Group(Namespace(bytes(16)), "fake", "general"),
    )


async def measure_layer(
    address: EmbedderAddress, pairs: Sequence[tuple[str, str]], size: int, folder: Path
) -> dict[str, Any]:
    """Return times over an index of ``size`` points, in microseconds."""
    embedder = RemoteEmbedder(address.socket, address.facts, budget_seconds=10.0)
    identity = Identity(embedder.model_id, embedder.dimensions)
    bounds = Bounds(delta_points=size + len(pairs))
    index = VectorIndex(folder, identity, bounds=bounds, clock=SystemClock(), events=Nobody())
    stored = (await embedder.embed([one for one, _ in pairs])).vectors
    filler = spread(stored, size - len(pairs))
    for number, vector in enumerate((*stored, *filler)):
        text = pairs[number][0] if number < len(pairs) else f"What is note {number} about?"
        index.add(point(number, text), vector)
    calibration = calibration_of(Semantic(), embedder.model_id, compares=True)
    comparison = make_comparison(
        embedder, calibration, budget_seconds=10.0, clock=SystemClock(), events=Nobody()
    )
    layer = SemanticLayer(
        embedder,
        OwnIndex(index),
        Threshold(calibration),
        Denials(),
        clock=SystemClock(),
        events=Nobody(),
        tolerances=Tolerances(),
        comparison=comparison,
    )
    terms = Terms("general")

    async def look_up(text: str) -> bool:
        return isinstance(await layer.lookup(Phrasing(PARTITION, text, 0.0), terms), Match)

    asked = [other for _, other in pairs]
    new = await _times(look_up, asked)
    known = await _times(look_up, asked)
    matrix = np.concatenate([stored, filler])
    vectors = (await embedder.embed(asked)).vectors
    search = [_timed(lambda v=v: index.search(PARTITION, v, 8, 0.0)) for v in vectors]  # type: ignore[misc]
    product = [_timed(lambda v=v: matrix @ v) for v in vectors]  # type: ignore[misc]
    bare = await _times(_embedding(embedder), [f"{text} Please." for text in asked])
    hits = sum([await look_up(text) for text in asked])
    await layer.aclose()
    await index.aclose()
    await embedder.aclose()
    return {
        "points": size,
        "hit_share": hits / len(asked),
        "hit_us": _quantiles(new),
        "hit_without_embedding_us": _quantiles(known),
        "embedding_us": _quantiles(bare),
        "search_us": _quantiles(search),
        "bare_product_us": _quantiles(product),
    }


def _embedding(embedder: RemoteEmbedder) -> Callable[[str], Awaitable[object]]:
    async def embed(text: str) -> object:
        return await embedder.embed([text])

    return embed


async def _times(act: Callable[[str], Awaitable[object]], texts: Sequence[str]) -> list[float]:
    times = []
    for text in texts:
        started = time.perf_counter()
        await act(text)
        times.append((time.perf_counter() - started) * 1e6)
    return times


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1e6


def _quantiles(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"p50": statistics.median(ordered), "p99": ordered[int(0.99 * (len(ordered) - 1))]}


def measure_gateway(pairs: Sequence[tuple[str, str]], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the times of one request after the other, by what came of it."""
    settings = (
        '[semantic]\nembedder = "multilingual"\ntimeout_seconds = 5.0\n'
        '[classes.exact]\nlayers = ["exact"]\nttl_seconds = 3600\n'
    )
    with (
        start_upstream(folder) as upstream,
        start_gateway(folder, upstream.url, settings=settings) as gateway,
    ):
        _wait_for_the_embedder(gateway.port)
        general, exact = {"x-stepwell-class": "general"}, {"x-stepwell-class": "exact"}
        stored = [one for one, _ in pairs]
        yield _asked(gateway.port, "miss, looked for in vain", stored, general)
        others = [f"Note {number}: {text}" for number, text in enumerate(stored)]
        yield _asked(gateway.port, "miss, exact layer only", others, exact)
        yield _asked(gateway.port, "exact hit", stored, general)
        time.sleep(1.0)
        yield _asked(gateway.port, "hit on other words", [other for _, other in pairs], general)


def _asked(port: int, name: str, texts: Sequence[str], headers: dict[str, str]) -> dict[str, Any]:
    times, seen = [], []
    for text in texts:
        request = http_request(chat_body(text), headers=headers)
        started = time.perf_counter()
        reply = send(port, request)
        times.append((time.perf_counter() - started) * 1e6)
        seen.append(reply.headers.get("cache-status", ""))
    shown = max(set(seen), key=seen.count)
    return {"request": name, "most": shown, "count": len(texts), **_quantiles(times)}


def _wait_for_the_embedder(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    send(port, http_request(chat_body("How do I tie a bow tie?")))
    while time.monotonic() < deadline:
        time.sleep(0.5)
        # Not stored, or the next time it would be an exact hit.
        other = chat_body("What is the best way to tie a bow tie?")
        reply = send(port, http_request(other, headers={"cache-control": "no-store"}))
        if "semantic" in reply.headers.get("cache-status", ""):
            return
    raise RuntimeError("the embedder was not ready in time")


def main() -> None:
    """Measure and report."""
    options = parse_arguments(__doc__)
    exit_on_sigterm()
    pairs = questions(20 if options.smoke else 200)
    sizes = (100,) if options.smoke else (1_000, 10_000)
    process = EmbedderProcess(E5, cache=cache_dir() / "models", threads=1, report=lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        address = process.start()
        try:
            if not process.wait_until_serving(PATIENCE_SECONDS):
                raise RuntimeError("the embedder was not ready in time")
            layers = [
                asyncio.run(measure_layer(address, pairs, size, Path(folder) / str(size)))
                for size in sizes
            ]
        finally:
            process.stop()
        leave_the_first_cpu()
        requests = list(measure_gateway(pairs, Path(folder)))
    for layer in layers:
        rows = [{"part": name, **times} for name, times in layer.items() if isinstance(times, dict)]
        print(f"{layer['points']} points, {100 * layer['hit_share']:.0f} % hits; microseconds")
        print_table(rows, ("part", "p50", "p99"))
    print_table(requests, ("request", "count", "p50", "p99", "most"))
    write("semantic_hit", {"layer": layers, "gateway": requests}, options.json)


if __name__ == "__main__":
    main()
