"""Hit ratios of the eviction policies on traces, against FIFO, LRU and Belady, and their cost.

Run it from the project root: ``python -m benchmarks.eviction_policies --json out.json``. The
traces are read from ``--data``, else from the directory in STEPWELL_BENCH_DATA, else from
``../shared/data``: ``cachetrace/*.csv.gz`` with columns ``key[,size][,t]``, and
``trace/*mooncake*.jsonl.gz`` whose ``hash_ids`` are replayed in order. Without them, only the
seeded Zipf traces are replayed.

A capacity is a share of a trace's distinct keys; for byte hit ratios, of their bytes. The score
of a policy is (policy - LRU) / (Belady - LRU). Belady is exact, with bypass, for entries of one
size; where LRU is within 0.2 points of it there is nothing to win and no score.
"""

import bisect
import gzip
import hashlib
import heapq
import itertools
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from report import parse_arguments, print_table, write

from stepwell.core.entry import Selector
from stepwell.core.events import Event
from stepwell.core.names import CacheKey
from stepwell.core.ports import EvictionPolicy
from stepwell.stores.eviction.adaptive import Adaptive
from stepwell.stores.eviction.lfu import Lfu
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry
from stepwell.testing.policy_contract import count_hits

SHARES = (0.01, 0.1)
NO_ROOM = 0.002
"""Where Belady is no further above LRU than this, there is no score."""
SMOKE_REQUESTS = 10_000
PROJECT = Path(__file__).resolve().parent.parent


class Fifo(Lru):
    """Evicts in order of arrival."""

    def on_hit(self, key: CacheKey) -> None:
        """Ignore the hit."""


POLICIES: dict[str, Callable[[], EvictionPolicy]] = {
    "fifo": Fifo,
    "lru": Lru,
    "lfu": Lfu,
    "adaptive": Adaptive,
}
COLUMNS = {"hit_ratios": ["trace", "of", "share", "capacity", *POLICIES, "belady"]}
"""Columns printed where a table has more than fit a line."""


@dataclass(frozen=True)
class Trace:
    """Requests in order of arrival."""

    name: str
    numbers: Sequence[int]
    """The key of each request."""
    sizes: dict[int, int] | None = None
    """Bytes of each key, where the trace tells them."""


def key_of(number: int) -> CacheKey:
    """Return the cache key that stands for a key of a trace."""
    return CacheKey(hashlib.sha256(str(number).encode()).digest())


def zipf(exponent: float, seed: int, *, distinct: int = 10_000, drifts: bool = False) -> list[int]:
    """Return 100,000 requests for ``distinct`` keys whose popularity falls with rank.

    With ``drifts``, the popular keys change: every 1,000 requests, the hundred least popular
    become the most popular.
    """
    choice = random.Random(seed)
    ranks = list(range(distinct))
    weights = list(itertools.accumulate(1 / (rank + 1) ** exponent for rank in ranks))
    requests: list[int] = []
    while len(requests) < 100_000:
        if drifts and requests:
            ranks = ranks[-100:] + ranks[:-100]
        requests.extend(
            ranks[bisect.bisect_left(weights, choice.random() * weights[-1])] for _ in range(1_000)
        )
    return requests


def read_csv(path: Path) -> Trace:
    """Read a trace with a key, and perhaps a size, on each line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        columns = next(file).strip().split(",")
        rows = [line.strip().split(",") for line in file]
    numbers = [int(row[0]) for row in rows]
    sizes = None
    if "size" in columns:
        at = columns.index("size")
        sizes = {int(row[0]): max(1, int(row[at])) for row in rows}
    return Trace(path.name.split(".")[0].removeprefix("cache_"), numbers, sizes)


def read_blocks(path: Path) -> Trace:
    """Read a trace of requests, each with the ids of its prompt's blocks."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        numbers = [number for line in file for number in json.loads(line)["hash_ids"]]
    return Trace(path.name.split(".")[0].removeprefix("trace_"), numbers)


def made_here() -> Iterator[Trace]:
    """Yield the seeded Zipf traces."""
    yield Trace("zipf_0.9", zipf(0.9, seed=1))
    yield Trace("zipf_1.1", zipf(1.1, seed=2))
    yield Trace("zipf_1.0_drifting", zipf(1.0, seed=3, drifts=True))


def read_traces(directory: Path) -> Iterator[Trace]:
    """Yield the traces below ``directory``."""
    yield from map(read_csv, sorted(directory.glob("cachetrace/*.csv.gz")))
    yield from map(read_blocks, sorted(directory.glob("trace/*mooncake*.jsonl.gz")))


def belady(numbers: Sequence[int], capacity: int) -> float:
    """Return the best hit ratio any policy can have: what is needed last is not kept."""
    never = len(numbers)
    next_use = [never] * len(numbers)
    later: dict[int, int] = {}
    for at in range(len(numbers) - 1, -1, -1):
        next_use[at] = later.get(numbers[at], never)
        later[numbers[at]] = at
    held: dict[int, int] = {}
    farthest: list[tuple[int, int]] = []
    hits = 0
    for number, again in zip(numbers, next_use, strict=True):
        hits += number in held
        held[number] = again
        heapq.heappush(farthest, (-again, number))
        while len(held) > capacity:
            use, victim = heapq.heappop(farthest)
            if held.get(victim) == -use:
                del held[victim]
    return hits / len(numbers)


def replay(policy: EvictionPolicy, keys: Sequence[CacheKey], capacity: int) -> float:
    """Return the hit ratio of a cache of ``capacity`` entries."""
    return count_hits(policy, keys, max_entries=capacity) / len(keys)


def replay_bytes(
    policy: EvictionPolicy,
    keys: Sequence[CacheKey],
    size_of: dict[CacheKey, int],
    capacity_bytes: int,
) -> float:
    """Return the byte hit ratio of a cache of ``capacity_bytes``; what cannot fit is bypassed."""
    held: set[CacheKey] = set()
    room = capacity_bytes
    hit_bytes = 0
    for key in keys:
        size = size_of[key]
        if key in held:
            hit_bytes += size
            policy.on_hit(key)
        elif size <= capacity_bytes:
            while room < size:
                victim = policy.victim()
                held.remove(victim)
                room += size_of[victim]
            policy.on_put(key, size)
            held.add(key)
            room -= size
    return hit_bytes / sum(map(size_of.__getitem__, keys))


def hit_ratios(trace: Trace) -> list[dict[str, object]]:
    """Return a row for each capacity, and for each in bytes if the trace has sizes."""
    rows: list[dict[str, object]] = []
    distinct = set(trace.numbers)
    key_by_number = {number: key_of(number) for number in distinct}
    keys = [key_by_number[number] for number in trace.numbers]
    for share in SHARES:
        capacity = max(1, int(len(distinct) * share))
        row: dict[str, object] = {"trace": trace.name, "of": "entries", "share": share}
        row |= {"capacity": capacity, "requests": len(keys), "distinct": len(distinct)}
        row |= {name: replay(make(), keys, capacity) for name, make in POLICIES.items()}
        rows.append(row | {"belady": belady(trace.numbers, capacity)})
    if trace.sizes is not None:
        size_of = {key_by_number[number]: trace.sizes[number] for number in distinct}
        for share in SHARES:
            capacity = int(sum(size_of.values()) * share)
            row = {"trace": trace.name, "of": "bytes", "share": share, "capacity": capacity}
            for name, make in POLICIES.items():
                row[name] = replay_bytes(make(), keys, size_of, capacity)
            rows.append(row)
    return rows


def scores(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return, for each policy, how much of the way from LRU to Belady it goes."""
    table: list[dict[str, object]] = []
    for name in POLICIES:
        reached: list[float] = []
        points: list[float] = []
        for row in rows:
            if row["of"] == "bytes":
                continue
            lru, mine, best = (float(str(row[column])) for column in ("lru", name, "belady"))
            points.append(100 * (mine - lru))
            if best - lru > NO_ROOM:
                reached.append((mine - lru) / (best - lru))
        line: dict[str, object] = {"policy": name, "score_median": statistics.median(reached)}
        line |= {"score_mean": statistics.mean(reached), "score_worst": min(reached)}
        table.append(line | {"worst_points_below_lru": min(points)})
    return table


class Unheard:
    """A sink for events nobody looks at."""

    def emit(self, event: Event) -> None:
        """Drop ``event``."""


def costs(requests: int, capacities: Sequence[int]) -> list[dict[str, object]]:
    """Return CPU microseconds of a policy's calls, in a full cache under Zipf traffic.

    ``hit_us`` is the call on the hot path alone; what a policy puts off to the next miss is in
    ``requests_per_second``, the policy's share of a replay. ``miss_us`` is a victim and a put.
    """
    keys = [key_of(number) for number in zipf(1.0, seed=4, distinct=100_000)[:requests]]
    fresh = [key_of(-1 - number) for number in range(requests // 10)]
    table: list[dict[str, object]] = []
    for capacity in capacities:
        for name, make in POLICIES.items():
            policy = make()
            start = time.process_time()
            replay(policy, keys, capacity)
            replayed = time.process_time()
            for key in fresh:
                policy.victim()
                policy.on_put(key, 1)
            missed = time.process_time()
            for key in itertools.islice(itertools.cycle(fresh[-capacity // 2 :]), requests):
                policy.on_hit(key)
            hit = time.process_time()
            row: dict[str, object] = {"policy": name, "capacity": capacity}
            row["requests_per_second"] = round(requests / (replayed - start))
            row["hit_us"] = 1e6 * (hit - missed) / requests
            row["miss_us"] = 1e6 * (missed - replayed) / len(fresh)
            table.append(row)
    return table


def store_costs(requests: int) -> list[dict[str, object]]:
    """Return CPU microseconds of the memory tier's calls, with the default policy."""
    capacity = requests // 20
    entries = [make_entry(str(number), body=b"x" * 2_000) for number in range(2 * capacity)]
    store = MemoryStore(
        Adaptive(),
        max_entries=capacity,
        max_bytes=capacity * 10_000,
        clock=HandClock(),
        events=Unheard(),
    )
    for entry in entries[:capacity]:
        store.put(entry)
    held = [entry.key for entry in entries[:capacity]] * 20
    start = time.process_time()
    for key in held:
        store.get(key)
    got = time.process_time()
    for entry in entries[capacity:]:
        store.put(entry)
    put = time.process_time()
    store.invalidate(Selector(tag="none"))
    invalidated = time.process_time()
    row: dict[str, object] = {"entries": capacity, "get_us": 1e6 * (got - start) / len(held)}
    row["put_and_evict_us"] = 1e6 * (put - got) / capacity
    row["invalidate_us_per_entry"] = 1e6 * (invalidated - put) / capacity
    return [row]


def default_data() -> Path:
    """Return where the traces are if the command line does not say."""
    return Path(os.environ.get("STEPWELL_BENCH_DATA") or PROJECT.parent / "shared" / "data")


def main() -> None:
    """Replay all traces, print the tables, write the JSON."""
    arguments = parse_arguments(__doc__ or "", data="directory of traces")
    directory = Path(arguments.data) if arguments.data else default_data()
    traces = list(read_traces(directory))
    if not traces:
        print(f"No traces in {directory}: only generated Zipf traces are replayed.\n")
    traces.extend(made_here())
    rows: list[dict[str, object]] = []
    for trace in traces:
        numbers = trace.numbers[:SMOKE_REQUESTS] if arguments.smoke else trace.numbers
        rows.extend(hit_ratios(replace(trace, numbers=numbers)))
    requests, capacities = (
        (20_000, (100, 1_000)) if arguments.smoke else (100_000, (100, 1_000, 10_000))
    )
    tables = {
        "hit_ratios": rows,
        "scores": scores(rows),
        "costs": costs(requests, capacities),
        "store_costs": store_costs(requests),
    }
    for name, table in tables.items():
        print(f"{name.replace('_', ' ')}:")
        print_table(table, COLUMNS.get(name, list(table[0])))
        print()
    write("eviction_policies", {"smoke": arguments.smoke, **tables}, arguments.json)


if __name__ == "__main__":
    main()
