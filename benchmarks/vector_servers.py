"""Who searches for what is near: a worker's own index, Redis's search, pgvector, or numpy alone.

    python benchmarks/vector_servers.py [--smoke] [--json OUT] [--points N,N,..]

The same vectors in all, 384 dimensions, in one partition and, of a thousandth of the points but at
least a hundred, in a small one. Vectors are random ones and near-duplicates of them
(`vector_index.py`), which is the hardest an index can be given. Each search is for ten, as the
semantic layer makes it: through the port, over TCP on loopback for servers, with one search under
way. ``numpy`` is the product with all vectors of the partition and the choice of the ten largest.

``recall`` is the share of the ten nearest that is among those found. Times are of the wall, in
microseconds, from rounds that go over all contenders in turn. ``add`` is one point after another
into what is there already. ``bytes`` is what the server, or the worker's directory, grew by for
each point. Redis's search is RediSearch 2.10 in Valkey; PostgreSQL is 18, with what it writes not
flushed to disk (``fsync`` off), which concerns ``add`` alone. Where the package of Redis's search
does not exist (Linux on x86_64 only), it is left out.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import asyncpg
import numpy as np
from load import fast_loop
from processes import PROJECT
from report import parse_arguments, print_table, write
from vector_index import (
    BULK,
    DIMENSIONS,
    PARTITION,
    K,
    make_point,
    make_vectors,
    merge_all,
    noisy,
    open_index,
)

from stepwell.core.names import Position
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Vector, Vectors
from stepwell.semantic.index.own import OwnIndex
from stepwell.stores.postgres.points import add_statement, row_of
from stepwell.stores.postgres.schema import Schema

sys.path.append(str(PROJECT / "tests"))  # where servers are started

from support.point_servers import open_postgres_points, open_redis_points
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import SEARCH, RedisServer, redis_servers

SIZES = (1_000, 10_000, 100_000)
SMOKE_SIZES = (1_000,)
SEARCHES, SMOKE_SEARCHES = 400, 20
ADDED, SMOKE_ADDED = 200, 10
TIMEOUT_SECONDS = 60.0
LATER = time.time() + 86_400
SMALL = bytes(32)
SMALL_SHARE, SMALL_LEAST = 0.001, 100
_AT_A_TIME = 200

Search = Callable[[bytes, Vector], Awaitable[Sequence[Candidate]]]


@dataclass(frozen=True)
class Data:
    """Points and vectors; the last of them are in the small partition."""

    points: Sequence[Point]
    vectors: Vectors
    small: int
    """How many."""

    def rows(self, partition: bytes) -> slice:
        """Return where the points of a partition are."""
        border = len(self.points) - self.small
        return slice(border, None) if partition == SMALL else slice(border)


class Searcher(Protocol):
    """Finds points, as an index or a server of them."""

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        """Return the nearest."""
        ...

    async def add(self, point: Point, vector: Vector) -> object:
        """Take one more."""
        ...


class Numpy:
    """Compares with all."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._matrices = {
            partition: np.ascontiguousarray(data.vectors[data.rows(partition)])
            for partition in {point.partition for point in data.points}
        }

    async def search(
        self,
        partition: bytes,
        vector: Vector,
        k: int,
        now: float,  # noqa: ARG002  (nothing expires here)
    ) -> Sequence[Candidate]:
        """Return the nearest."""
        points = self._data.points[self._data.rows(partition)]
        similarities = self._matrices[partition] @ vector
        rows = np.argpartition(-similarities, k)[:k]
        return [
            Candidate(
                points[row].key,
                points[row].text,
                points[row].temperature,
                points[row].expires_at,
                points[row].position,
                float(similarities[row]),
            )
            for row in rows[np.argsort(-similarities[rows])]
        ]


@dataclass
class Contender:
    """One who searches, and what was seen of it."""

    name: str
    search: Search
    bytes_a_point: float | None = None
    add_us: float | None = None
    times: dict[bytes, list[float]] = field(default_factory=dict)
    found: dict[bytes, int] = field(default_factory=dict)


def make_data(size: int) -> Data:
    """Return ``size`` points, and those of the small partition."""
    small = max(int(size * SMALL_SHARE), SMALL_LEAST)
    points = [replace(make_point(number), expires_at=LATER) for number in range(size + small)]
    points[size:] = [replace(point, partition=SMALL) for point in points[size:]]
    return Data(points, make_vectors(size + small, None), small)


def searching(
    searcher: Searcher | Numpy,
) -> Callable[[bytes, Vector], Awaitable[Sequence[Candidate]]]:
    """Return how it is asked."""
    return lambda partition, vector: searcher.search(partition, vector, K, time.time())


async def added_us(searcher: Searcher, count: int) -> float:
    """Return how long it takes to add a point, at the median; they are in a third partition."""
    times = []
    for number, vector in enumerate(make_vectors(count, None)):
        point = replace(make_point(-1 - number), partition=bytes(31) + b"x", expires_at=LATER)
        started = time.perf_counter()
        await searcher.add(point, vector)
        times.append((time.perf_counter() - started) * 1e6)
    return float(np.median(times))


def size_of(directory: Path) -> int:
    """Return the bytes of all files."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


async def open_own(stack: AsyncExitStack, data: Data, added: int) -> Contender:
    """Build a worker's own index, as merges leave it."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    index = await open_index(directory, BULK)
    for number, (point, vector) in enumerate(zip(data.points, data.vectors, strict=True)):
        index.add(point, vector)
        if number % BULK.delta_points == BULK.delta_points - 1:
            await index.flush(Position(0))
    await index.flush(Position(0))
    await index.aclose()
    merge_all(directory)
    size_bytes = size_of(directory)
    index = await open_index(directory, BULK)
    stack.push_async_callback(index.aclose)
    own = OwnIndex(index)
    contender = Contender("own", searching(own), size_bytes / len(data.points))
    contender.add_us = await added_us(own, added)
    return contender


async def open_redis(
    stack: AsyncExitStack, server: RedisServer, data: Data, added: int
) -> Contender:
    """Fill Redis, with many calls under way."""
    server.ask("FLUSHALL")
    opened = await open_redis_points(
        server.url, "benchmark", DIMENSIONS, timeout_seconds=TIMEOUT_SECONDS
    )
    stack.push_async_callback(opened.points.aclose)
    before = int(server.info("memory")["used_memory"])
    for start in range(0, len(data.points), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        pairs = zip(data.points[part], data.vectors[part], strict=True)
        await asyncio.gather(*(opened.points.add(point, vector) for point, vector in pairs))
    grown = int(server.info("memory")["used_memory"]) - before
    contender = Contender("redis", searching(opened.points), grown / len(data.points))
    contender.add_us = await added_us(opened.points, added)
    return contender


async def open_postgres(
    stack: AsyncExitStack, server: PostgresServer, data: Data, added: int
) -> Contender:
    """Fill PostgreSQL; the index is built when all rows are there."""
    prefix = f"n{len(data.points)}"
    opened = await open_postgres_points(
        server.url, prefix, DIMENSIONS, timeout_seconds=TIMEOUT_SECONDS
    )
    stack.push_async_callback(opened.points.aclose)
    schema = Schema(prefix, "model", DIMENSIONS)
    near = f"{schema.points}_near"
    definition = server.query(f"SELECT indexdef FROM pg_indexes WHERE indexname = '{near}'")
    connection = await asyncpg.connect(server.url)
    await connection.execute(f"DROP INDEX {near}")
    await connection.executemany(add_statement(schema), map(row_of, data.points, data.vectors))
    await connection.execute("SET maintenance_work_mem = '512MB'")
    await connection.execute(definition)
    await connection.execute(f"VACUUM ANALYZE {schema.points}")
    grown = await connection.fetchval("SELECT pg_total_relation_size($1)", schema.points)
    await connection.close()
    contender = Contender("pgvector", searching(opened.points), grown / len(data.points))
    contender.add_us = await added_us(opened.points, added)
    return contender


async def compete(contenders: Sequence[Contender], data: Data, searches: int) -> None:
    """Ask all the same, in turn."""
    plain, chance = Numpy(data), np.random.default_rng(1)
    for partition in (PARTITION, SMALL):
        near = data.vectors[data.rows(partition)]
        stored = near[chance.integers(0, len(near), searches)]
        cosines = chance.uniform(0.85, 0.99, searches).astype(np.float32)
        for number, vector in enumerate(noisy(stored, cosines, 7)):
            wanted = {one.key for one in await plain.search(partition, vector, K, 0.0)}
            first = number % len(contenders)
            for contender in (*contenders[first:], *contenders[:first]):
                started = time.perf_counter()
                found = await contender.search(partition, vector)
                taken = (time.perf_counter() - started) * 1e6
                contender.times.setdefault(partition, []).append(taken)
                same = len(wanted & {one.key for one in found})
                contender.found[partition] = contender.found.get(partition, 0) + same


async def measure(
    size: int, redis: RedisServer | None, postgres: PostgresServer, searches: int, added: int
) -> list[dict[str, object]]:
    """Return a row for each contender and partition."""
    data = make_data(size)
    async with AsyncExitStack() as stack:
        contenders = [
            Contender("numpy", searching(Numpy(data))),
            await open_own(stack, data, added),
            await open_postgres(stack, postgres, data, added),
        ]
        if redis is not None:
            contenders.append(await open_redis(stack, redis, data, added))
        await compete(contenders, data, searches)
    return [
        row_for(contender, data, partition)
        for partition in (PARTITION, SMALL)
        for contender in contenders
    ]


def row_for(contender: Contender, data: Data, partition: bytes) -> dict[str, object]:
    """Return what is told of a contender."""
    times = np.array(contender.times[partition])
    row: dict[str, object] = {
        "points": len(data.points),
        "partition": len(data.points[data.rows(partition)]),
        "by": contender.name,
        "recall": contender.found[partition] / (K * len(times)),
        "p50_us": round(float(np.percentile(times, 50))),
        "p99_us": round(float(np.percentile(times, 99))),
    }
    if partition == PARTITION and contender.add_us is not None:
        row["add_us"] = round(contender.add_us)
        row["bytes"] = round(contender.bytes_a_point or 0)
    return row


def main() -> None:
    """Measure all sizes."""
    arguments = parse_arguments(__doc__ or "", points="sizes, with commas between")
    sizes: tuple[int, ...] = SMOKE_SIZES if arguments.smoke else SIZES
    if arguments.points is not None:
        sizes = tuple(map(int, arguments.points.split(",")))
    searches = SMOKE_SEARCHES if arguments.smoke else SEARCHES
    added = SMOKE_ADDED if arguments.smoke else ADDED
    rows: list[dict[str, object]] = []
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        launcher = stack.enter_context(redis_servers())
        redis = None if SEARCH is None else launcher.start(f"loadmodule {SEARCH}")
        runner = stack.enter_context(asyncio.Runner(loop_factory=fast_loop()))
        for size in sizes:
            rows += runner.run(measure(size, redis, postgres, searches, added))
    columns = "points partition by recall p50_us p99_us add_us bytes".split()
    print_table(rows, columns)
    write("vector_servers", rows, arguments.json)


if __name__ == "__main__":
    main()
