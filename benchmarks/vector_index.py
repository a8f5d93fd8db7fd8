"""The vector index: searches, memory, inserts, churn, merges and restarts.

    python benchmarks/vector_index.py [--smoke] [--json OUT] [--vectors BASE.npy] [--points N,N,..]

Each size is one partition in one segment, as a merge leaves it. Vectors are base vectors (random,
or those of a file) and near-duplicates of them, at cosines of .75 to .98, some 28 a base vector at
a million. ``raw`` is the bare call in the same process, called in turn with the index: the
product with numpy and the choice of the ten largest where the partition is scanned, else
`faiss.IndexIVF.search` on the same mapped file with the same ``nprobe``. Times are of the wall, and
of the thread's CPU where it says ``cpu``: on a busy machine only those compare.

``found`` is the share of queries whose stored neighbour, at cosines of .85 to .99, is among the
ten returned. ``resident`` is what a process grows by when it opens the index and searches 5,000
times; ``private`` is the part that no other process shares.
"""

import asyncio
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import faiss
import msgspec
import numpy as np
import numpy.typing as npt
from report import parse_arguments, print_table, write

from stepwell.core.clock import SystemClock
from stepwell.core.events import Event
from stepwell.core.names import CacheKey, Namespace, Position
from stepwell.core.points import Group, Point
from stepwell.core.vectors import Vectors
from stepwell.semantic.index import merging
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.folder import Folder
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.manifest import Identity
from stepwell.semantic.index.merging import Job

DIMENSIONS = 384
IDENTITY = Identity("benchmark", DIMENSIONS)
PARTITION = hashlib.sha256(b"partition").digest()
GROUP = Group(Namespace(bytes(16)), "model", "general")
LATER = 1e12
K = 10
DUPLICATES = 28
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SMOKE_SIZES = (1_000, 20_000)

BULK = Bounds(max_points=10_000_000, delta_points=60_000, delta_bytes=1 << 30, fan=1_000_000)
"""For building at once: large flushes, and no merges but ours."""


class Printed:
    """Shows what should not happen."""

    def emit(self, event: Event) -> None:
        """Print ``event``."""
        print("EVENT", event)


def unit(vectors: npt.NDArray[np.floating]) -> Vectors:
    """Return vectors of unit length."""
    scaled: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def noisy(vectors: Vectors, cosines: npt.NDArray[np.float32], seed: int) -> Vectors:
    """Return for each vector one at about that cosine to it."""
    noise = np.random.default_rng(seed).standard_normal(vectors.shape, np.float32)
    noise /= np.sqrt(vectors.shape[1])
    return unit(cosines[:, None] * vectors + np.sqrt(1 - cosines[:, None] ** 2) * noise)


def make_vectors(count: int, base: Vectors | None) -> Vectors:
    """Return base vectors and their near-duplicates, mixed."""
    chance = np.random.default_rng(count)
    bases = max(count // DUPLICATES, 1_000)
    if base is None:
        centres = unit(chance.standard_normal((bases, DIMENSIONS), np.float32))
    else:
        # Rows of texts without a vector are zero.
        usable = np.flatnonzero(np.abs(base).sum(axis=1))
        centres = unit(np.array(base[chance.permutation(usable)[:bases]], np.float32))
    chosen = chance.integers(0, len(centres), count)
    vectors = np.empty((count, DIMENSIONS), np.float32)
    for start in range(0, count, 50_000):
        part = chosen[start : start + 50_000]
        cosines = chance.uniform(0.75, 0.98, len(part)).astype(np.float32)
        vectors[start : start + 50_000] = noisy(centres[part], cosines, start)
    return vectors


def make_point(number: int, version: int = 0) -> Point:
    """Return a point with a text of 60 letters."""
    key = CacheKey(hashlib.sha256(b"%d" % number).digest())
    text = f"{number:010d} " + "what a person asks, " * 2 + "in words"
    return Point(PARTITION, key, text, None, LATER + version, Position(version), GROUP, ())


def make_index(directory: Path, bounds: Bounds) -> VectorIndex:
    """Return an index."""
    return VectorIndex(directory, IDENTITY, bounds=bounds, clock=SystemClock(), events=Printed())


async def open_index(directory: Path, bounds: Bounds) -> VectorIndex:
    """Return an index that has read its directory."""
    index = make_index(directory, bounds)
    await index.refresh()
    if index.gap is not None:
        index.close_gap(index.gap)
    return index


async def build(directory: Path, vectors: Vectors) -> dict[str, float]:
    """Write an index of one segment; return how long the merge took."""
    index = await open_index(directory, BULK)
    for number, vector in enumerate(vectors):
        index.add(make_point(number), vector)
        if number % BULK.delta_points == BULK.delta_points - 1:
            await index.flush(Position(0))
    await index.flush(Position(0))
    await index.aclose()
    return merge_all(directory)


def merge_all(directory: Path) -> dict[str, float]:
    """Make one segment of all, in a process of its own."""
    names = tuple(s.name for s in Folder(directory, IDENTITY).usable_manifest().segments)
    job = Job(str(directory), IDENTITY, names, Bounds().ivf_rows, time.time())
    started = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", _MERGE, msgspec.json.encode(job).decode()],
        check=True,
        capture_output=True,
        text=True,
    )
    cpu, peak = json.loads(run.stdout)
    return {
        "merge_seconds": time.perf_counter() - started,
        "merge_cpu_seconds": cpu,
        "merge_peak_rss_mb": peak,
    }


_MERGE = f"""
import json, resource, sys
import faiss, msgspec
from {merging.__name__} import Job, run
faiss.omp_set_num_threads(1)
assert run(msgspec.json.decode(sys.argv[1], type=Job))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
# As the process that merges for a worker does it, but not as the last in the queue for the CPU.


def timed(calls: dict[str, Callable[[int], object]], rounds: int) -> dict[str, float]:
    """Call each in turn, ``rounds`` times; return microseconds at the median and the 99th."""
    for call in calls.values():
        for number in range(20):
            call(number)
    spent: dict[str, list[float]] = {}
    for number in range(rounds):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.thread_time()
            call(number)
            cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
            spent.setdefault(f"{name}_us", []).append(wall * 1e6)
            spent.setdefault(f"{name}_cpu_us", []).append(cpu * 1e6)
    return {
        f"{name}_p{percent}": float(np.percentile(values, percent))
        for name, values in spent.items()
        for percent in (50, 99)
    }


def raw_call(directory: Path, vectors: Vectors, queries: Vectors) -> Callable[[int], object]:
    """Return the bare library call for the same work."""
    files = sorted(directory.glob("*/ivf-*"))
    if not files:

        def scan(number: int) -> object:
            cosines = vectors @ queries[number % len(queries)]
            return np.argpartition(cosines, -K)[-K:]

        return scan
    index = faiss.read_index(str(files[0]), faiss.IO_FLAG_MMAP)
    assert isinstance(index, faiss.IndexIVF)
    index.nprobe = Bounds().nprobe

    def search(number: int) -> object:
        return index.search(queries[number % len(queries)][None], K)

    return search


def make_queries(vectors: Vectors, count: int) -> tuple[npt.NDArray[np.intp], Vectors]:
    """Return rows, and a vector near each."""
    chance = np.random.default_rng(5)
    rows = chance.integers(0, len(vectors), count)
    cosines = chance.uniform(0.85, 0.99, count).astype(np.float32)
    return rows, noisy(vectors[rows], cosines, 6)


def found_share(index: VectorIndex, rows: Sequence[int], queries: Vectors) -> float:
    """Return how many queries find their row."""
    found = 0
    for row, query in zip(rows, queries, strict=True):
        key = make_point(row).key
        found += any(c.key == key for c in index.search(PARTITION, query, K, 0.0))
    return found / len(rows)


async def measure_size(
    directory: Path, count: int, base: Vectors | None, rounds: int
) -> dict[str, object]:
    """Return all figures of one size."""
    vectors = make_vectors(count, base)
    building = await build(directory, vectors)
    started = time.perf_counter()
    index = await open_index(directory, Bounds())
    restart = time.perf_counter() - started
    rows, queries = make_queries(vectors, 1_000)
    times = timed(
        {
            "search": lambda n: index.search(PARTITION, queries[n % len(queries)], K, 0.0),
            # Of other queries: else the one would warm the caches for the other.
            "raw": raw_call(directory, vectors, queries[::-1]),
        },
        rounds,
    )
    return {
        "points": count,
        **times,
        "ratio": times["search_cpu_us_p50"] / times["raw_cpu_us_p50"],
        "found": found_share(index, rows.tolist(), queries),
        "restart_seconds": restart,
        "disk_bytes_a_point": disk_bytes(directory) / count,
        **memory(directory, count),
        **building,
    }


def disk_bytes(directory: Path) -> int:
    """Return what the segments take."""
    return sum(path.stat().st_size for path in directory.glob("*/*"))


def memory(directory: Path, count: int) -> dict[str, float]:
    """Return what a process grows by, while this one has the same index open."""
    run = subprocess.run(
        [sys.executable, __file__, "--probe", str(directory)],
        check=True,
        capture_output=True,
        text=True,
    )
    probed: dict[str, float] = json.loads(run.stdout)
    return {
        "resident_bytes_a_point": probed["rss"] * 1024 / count,
        "private_mb": probed["private"] / 1024,
    }


async def probe(directory: Path) -> None:
    """Open an index, search, and print what that took, in kB."""
    warm = Path(tempfile.mkdtemp())
    await build(warm, make_vectors(100, None))
    before_open = await open_index(warm, Bounds())
    before_open.search(PARTITION, make_vectors(1, None)[0], K, 0.0)
    before = _smaps()
    index = await open_index(directory, Bounds())
    opened = _smaps()
    queries = make_vectors(5_000, None)
    held = _smaps()
    for query in queries:
        index.search(PARTITION, query, K, 0.0)
    after = _smaps()
    print(
        json.dumps(
            {
                name: after[name] - held[name] + opened[name] - before[name]
                for name in ("rss", "private")
            }
        )
    )


def _smaps() -> dict[str, float]:
    fields = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, _, value = line.partition(":")
        fields[name] = float(value.split()[0])
    return {
        "rss": fields["Rss"],
        "private": fields["Private_Clean"] + fields["Private_Dirty"],
    }


class Lateness:
    """How late the event loop is, and how much it computes between two looks at it."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._busy: list[float] = []

    async def watch(self) -> None:
        """Look every two milliseconds, until cancelled."""
        while True:
            due, cpu = time.perf_counter() + 0.002, time.thread_time()
            await asyncio.sleep(0.002)
            self._late.append((time.perf_counter() - due) * 1e3)
            self._busy.append((time.thread_time() - cpu) * 1e3)

    def figures(self) -> dict[str, float]:
        """Return milliseconds. What others had of the processor counts as late, not as busy."""
        return {
            f"loop_{name}_ms_p{percent}": float(np.percentile(values, percent))
            for name, values in (("late", self._late), ("busy", self._busy))
            for percent in (50, 99, 100)
        }


async def keep_up(index: VectorIndex) -> None:
    """Maintain ten times a second, until cancelled."""
    while True:
        await index.maintain(Position(0))
        await asyncio.sleep(0.1)


async def add_all(index: VectorIndex, vectors: Vectors) -> float:
    """Add points, ten at a time, as fast as the delta takes them; return the CPU seconds."""
    spent = 0.0
    for first in range(0, len(vectors), 10):
        points = [make_point(first + n) for n in range(len(vectors[first : first + 10]))]
        before = time.thread_time()
        for point, vector in zip(points, vectors[first : first + 10], strict=True):
            index.add(point, vector)
        spent += time.thread_time() - before
        await asyncio.sleep(0)
        await room(index)
    return spent


async def room(index: VectorIndex) -> None:
    """Wait until the delta takes more without letting others go."""
    while True:
        if index.contents().delta_points < 2 * Bounds().delta_points - 100:
            return
        await asyncio.sleep(0.01)


async def measure_inserts(directory: Path, vectors: Vectors) -> dict[str, object]:
    """Add points as fast as they are taken, with all upkeep, and watch the loop meanwhile."""
    index = await open_index(directory, Bounds())
    lateness = Lateness()
    tasks = [asyncio.create_task(lateness.watch()), asyncio.create_task(keep_up(index))]
    started = time.perf_counter()
    adding = await add_all(index, vectors)
    seconds = time.perf_counter() - started
    segments = index.contents().segments
    await settled(index)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    contents = index.contents()
    await index.aclose()
    return {
        "points": len(vectors),
        "inserts_a_second": len(vectors) / seconds,
        "add_cpu_us": adding / len(vectors) * 1e6,
        **lateness.figures(),
        "segments": segments,
        "segments_after_merges": contents.segments,
        "lost": len(vectors) - contents.points,
    }


async def settled(index: VectorIndex) -> None:
    """Maintain until no merge is due."""
    await index.maintain(Position(0))
    while index.is_merging:
        await asyncio.sleep(0.1)
        await index.maintain(Position(0))


async def measure_churn(directory: Path, base: Vectors | None, count: int) -> dict[str, object]:
    """Replace half of the points three times; count what is found, and what should not be."""
    index = await open_index(directory, Bounds(delta_points=count // 8))
    vectors = make_vectors(count, base)
    await replace(index, range(count), vectors, 0)
    chance = np.random.default_rng(9)
    dead = 0
    for version in range(1, 4):
        half = chance.permutation(count)[: count // 2]
        old = vectors[half[:500]]
        vectors[half] = make_vectors(count, base)[chance.permutation(count)[: len(half)]]
        await replace(index, half.tolist(), vectors, version)
        await settled(index)
        dead += sum(
            candidate.key == make_point(row).key and candidate.position < version
            for row, vector in zip(half.tolist(), old, strict=False)
            for candidate in index.search(PARTITION, vector, K, 0.0)
        )
    rows, queries = make_queries(vectors, 1_000)
    contents = index.contents()
    found = found_share(index, rows.tolist(), queries)
    await index.aclose()
    return {
        "points": contents.points,
        "segments": contents.segments,
        "found": found,
        "dead_returned": dead,
    }


async def replace(index: VectorIndex, rows: Iterable[int], vectors: Vectors, version: int) -> None:
    """Add points of that version."""
    for count, row in enumerate(rows):
        index.add(make_point(row, version), vectors[row])
        if count % 500 == 499:
            await index.maintain(Position(0))


def chosen_sizes(text: str | None, *, smoke: bool) -> Iterator[int]:
    """Yield the sizes to measure."""
    if text is not None:
        yield from map(int, text.split(","))
    else:
        yield from SMOKE_SIZES if smoke else SIZES


async def main() -> None:
    """Measure, print, and write."""
    arguments = parse_arguments(
        __doc__ or "",
        vectors="base vectors, a .npy of shape (n, 384)",
        points="sizes to measure, with commas",
        probe="for this script's own use",
    )
    if arguments.probe:
        await probe(Path(arguments.probe))
        return
    base = None if arguments.vectors is None else np.load(arguments.vectors, mmap_mode="r")
    rounds = 100 if arguments.smoke else 2_000
    sizes = []
    for count in chosen_sizes(arguments.points, smoke=arguments.smoke):
        with tempfile.TemporaryDirectory() as directory:
            sizes.append(await measure_size(Path(directory), count, base, rounds))
            print(json.dumps(sizes[-1]), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        count = 20_000 if arguments.smoke else 200_000
        inserts = await measure_inserts(Path(directory), make_vectors(count, base))
        print(json.dumps(inserts), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        churn = await measure_churn(Path(directory), base, 2_000 if arguments.smoke else 50_000)
        print(json.dumps(churn), flush=True)
    print_table(sizes, ("points", "search_us_p50", "search_us_p99", "raw_us_p50", "ratio", "found"))
    results = {"sizes": sizes, "inserts": inserts, "churn": churn}
    write("vector_index", results, arguments.json)


if __name__ == "__main__":
    asyncio.run(main())
