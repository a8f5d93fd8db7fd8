"""What the disk store costs: put, get and behind() with 2 KB answers, against bare sqlite3.

Run it from the project root: ``python benchmarks/disk_store.py [--smoke] [--json out.json]``.

``bare`` is one table with key and bytes in a file of its own, used from the calling thread.
``connection`` is the store's own reading, decoding included, in the calling thread: what a get
would cost if it were allowed to block the event loop. ``store`` is the async API, with the hop
to the reading or writing thread and back. All take turns, round by round, and medians are shown.
CPU counts all threads of the process; ``x bare`` compares CPU with the bare row of the same kind.
"""

import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from report import parse_arguments, print_table, write

from stepwell.core.clock import SystemClock
from stepwell.core.entry import Entry
from stepwell.core.events import Event
from stepwell.core.names import CacheKey
from stepwell.stores.disk import entries
from stepwell.stores.disk.announced import Announced
from stepwell.stores.disk.database import Database
from stepwell.stores.disk.files import Files
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.schema import TABLES
from stepwell.stores.disk.store import DiskStore
from stepwell.stores.record import decode, encode
from stepwell.testing.entries import make_entry, make_key

BODY_BYTES = 2_048
TASKS = 64


class Ignored:
    """A sink for events nobody looks at."""

    def emit(self, event: Event) -> None:
        """Drop ``event``."""


@dataclass
class Case:
    """One thing that is measured: a round does ``count`` operations."""

    name: str
    kind: str
    run: Callable[[int], Awaitable[None]]
    wall_us: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    async def measure(self, count: int) -> None:
        """Run one round and note what an operation took."""
        wall, cpu = time.perf_counter(), time.process_time()
        await self.run(count)
        self.cpu_us.append((time.process_time() - cpu) / count * 1e6)
        self.wall_us.append((time.perf_counter() - wall) / count * 1e6)


class Bare:
    """A table of keys and bytes, with the settings of the store and nothing else."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("CREATE TABLE entries (key BLOB UNIQUE, record BLOB)")

    def get(self, key: CacheKey) -> bytes | None:
        """Return what is under ``key``."""
        query = "SELECT record FROM entries WHERE key = ?"
        row: tuple[bytes] | None = self._connection.execute(query, (key,)).fetchone()
        return None if row is None else row[0]

    def put(self, rows: Sequence[tuple[CacheKey, bytes]]) -> None:
        """Store ``rows`` in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("REPLACE INTO entries VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class Bench:
    """Both stores with the same entries, and the operations that are measured on them."""

    def __init__(self, store: DiskStore, database: Database, bare: Bare, stored: int) -> None:
        self.store = store
        self.database = database
        self.bare = bare
        self.entries = [new_entry(f"stored {number}") for number in range(stored)]
        self.hits = itertools.cycle([entry.key for entry in self.entries])
        self.misses = itertools.cycle([make_key(f"missing {number}") for number in range(stored)])
        self.fresh = (new_entry(f"fresh {number}") for number in itertools.count())

    async def fill(self) -> None:
        """Put the same entries into both."""
        for batch in batched(self.entries, 500):
            await asyncio.gather(*map(self.store.put, batch))
            self.bare.put([(entry.key, encode(entry)) for entry in batch])

    def cases(self) -> list[Case]:
        """Return everything that is measured."""
        return [
            Case("bare get hit", "hit", partial(self.in_thread, self.bare.get, self.hits)),
            Case(
                "bare get hit + decode",
                "hit",
                partial(self.in_thread, self.bare_decoded, self.hits),
            ),
            Case("connection get hit", "hit", partial(self.in_thread, self.direct, self.hits)),
            Case("store get hit", "hit", partial(self.one_by_one, self.hits)),
            Case(f"store get hit, {TASKS} tasks", "hit", partial(self.together, self.hits)),
            Case("bare get miss", "miss", partial(self.in_thread, self.bare.get, self.misses)),
            Case("connection get miss", "miss", partial(self.in_thread, self.direct, self.misses)),
            Case("store get miss", "miss", partial(self.one_by_one, self.misses)),
            Case("bare put", "put", partial(self.bare_put, 1)),
            Case("store put", "put", partial(self.store_put, 1)),
            Case(f"bare put, {TASKS} a commit", "batch", partial(self.bare_put, TASKS)),
            Case(f"store put, {TASKS} tasks", "batch", partial(self.store_put, TASKS)),
            Case("behind()", "", self.behind),
        ]

    def bare_decoded(self, key: CacheKey) -> Entry:
        record = self.bare.get(key)
        assert record is not None
        return decode(record)

    def direct(self, key: CacheKey) -> Entry | None:
        return self.database.run(partial(entries.find, key=key))

    async def in_thread(
        self, get: Callable[[CacheKey], object], keys: Iterator[CacheKey], count: int
    ) -> None:
        for key in itertools.islice(keys, count):
            get(key)

    async def one_by_one(self, keys: Iterator[CacheKey], count: int) -> None:
        for key in itertools.islice(keys, count):
            await self.store.get(key)

    async def together(self, keys: Iterator[CacheKey], count: int) -> None:
        async def task() -> None:
            await self.one_by_one(keys, count // TASKS)

        await asyncio.gather(*(task() for _ in range(TASKS)))

    async def bare_put(self, size: int, count: int) -> None:
        for batch in batched(itertools.islice(self.fresh, count), size):
            self.bare.put([(entry.key, encode(entry)) for entry in batch])

    async def store_put(self, size: int, count: int) -> None:
        for batch in batched(itertools.islice(self.fresh, count), size):
            await asyncio.gather(*map(self.store.put, batch))

    async def behind(self, count: int) -> None:
        for _ in range(count):
            self.store.behind()


def new_entry(name: str) -> Entry:
    """Return an entry of a common size that stays fresh for long."""
    return make_entry(name, body=bytes(BODY_BYTES), created_at=time.time(), ttl_seconds=1e6)


def batched(items: Sequence[Entry] | Iterator[Entry], size: int) -> Iterator[list[Entry]]:
    """Yield ``items`` in lists of ``size``."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def rows(cases: Sequence[Case]) -> list[dict[str, object]]:
    """Return the medians, and the ratio to the first case of the same kind."""
    cpu_us = {case.name: statistics.median(case.cpu_us) for case in cases}
    bare = {case.kind: cpu_us[case.name] for case in reversed(cases)}
    return [
        {
            "operation": case.name,
            "wall us": statistics.median(case.wall_us),
            "cpu us": cpu_us[case.name],
        }
        | ({"x bare": cpu_us[case.name] / bare[case.kind]} if case.kind else {})
        for case in cases
    ]


async def run(directory: Path, *, rounds: int, count: int) -> list[dict[str, object]]:
    """Measure everything in ``directory``."""
    clock = SystemClock()
    store_directory = directory / "store"
    store = await DiskStore.open(
        store_directory, max_bytes=2**30, clock=clock, events=Ignored(), timeout_seconds=30.0
    )
    files = Files(store_directory)
    generation = Generation(files.generation)
    database = Database(files, TABLES, clock, beside=Announced(generation))
    bench = Bench(store, database, Bare(directory / "bare.sqlite"), stored=count * 4)
    await bench.fill()
    cases = bench.cases()
    for _ in range(rounds):
        for case in cases:
            await case.measure(count)
    bench.bare.close()
    database.close()
    generation.close()
    await store.aclose()
    return rows(cases)


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "")
    rounds, count = (2, 256) if arguments.smoke else (9, 2_048)
    with tempfile.TemporaryDirectory() as directory:
        results = asyncio.run(run(Path(directory), rounds=rounds, count=count))
    print_table(results, ["operation", "wall us", "cpu us", "x bare"])
    write("disk_store", results, arguments.json)


if __name__ == "__main__":
    main()
