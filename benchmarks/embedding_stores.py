"""What vectors cost in Redis, PostgreSQL and on disk, beside the bare clients on the same servers.

    python benchmarks/embedding_stores.py [--smoke] [--json OUT]

Vectors of 1,536 numbers in ``f32``: 6,168 bytes each. Redis 7.0 (Valkey, where it is not
installed) and PostgreSQL 18 over TCP on loopback; the disk is a temporary directory. All contenders
of a row are asked for the same digests in turn, round by round; times are of the wall, in
microseconds, the 10th of a hundred, since the machine may have other things to do.

``get``: 1, 16, 64 and 256 at a time. ``redis``, ``postgres`` and ``disk`` are the ports; ``bare
redis`` is redis-py (or valkey-py) with GET and MGET, and ``bare postgres`` asyncpg with the same
statement, each followed by `numpy.frombuffer` for every value; the ports' values are unpacked and
checked by the cache's own reader. ``x redis``: as many times the port's.

``bytes``: of one stored vector, and as many times its 6,144 bytes of numbers: what the server's
memory, or the database's files, grew by; for Redis also in ``f16`` and ``i8``.

``retire``: a version by its partition, and the same rows by ``DELETE`` and ``VACUUM``.

``refill``: vectors a second from PostgreSQL into an emptied Redis, through the cache.

``outage``: texts that are known, one at a time through the cache as a gateway has it, without its
memory: with all servers, with Redis stopped (it keeps connections, and answers nothing), with
PostgreSQL stopped. In milliseconds; ``computed`` are those that no tier answered for.
"""

import asyncio
import importlib
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
from load import fast_loop
from processes import PROJECT
from report import parse_arguments, print_table, write

from stepwell.assembly import embedding as assembly
from stepwell.assembly.settings import Postgres, Redis
from stepwell.core.clock import SystemClock
from stepwell.core.embedding import ContentDigest, EmbeddingStore, Item, VectorKind
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.events import Event
from stepwell.embedding.cache.cache import Bounds, EmbeddingCache
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.pace import Pace
from stepwell.embedding.cache.provider import Input, NoAnswer, Reply
from stepwell.embedding.cache.tiers import Stores
from stepwell.embedding.cache.value import HEADER_BYTES, pack, unpack
from stepwell.stores.disk.embeddings.store import DiskEmbeddings
from stepwell.stores.postgres.embeddings import statements
from stepwell.stores.postgres.embeddings.schema import EmbeddingSchema
from stepwell.stores.postgres.embeddings.store import PostgresEmbeddings
from stepwell.stores.redis.embeddings import RedisEmbeddings

sys.path.append(str(PROJECT / "tests"))  # where servers are started

from support.embedding_stores import open_postgres_embeddings, open_redis_embeddings
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import REDIS, VALKEY, RedisServer, redis_servers

DIMENSIONS = 1_536
KIND = VectorKind("here", "benchmark")
VERSION = KIND.version
AT_A_TIME = (1, 16, 64, 256)
_SLICE = 256

Get = Callable[[Sequence[ContentDigest]], Awaitable[int]]
"""Returns how many came."""


class Ignored:
    """A sink for what nobody looks at."""

    def emit(self, event: Event | EmbeddingEvent) -> None:
        """Drop ``event``."""


def make_items(count: int, kind: VectorKind = KIND) -> list[Item]:
    """Return vectors of texts, without the texts."""
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((count, DIMENSIONS), np.float32)
    return [
        Item(text_digest(f"text {number}"), pack(vector, kind, 5))
        for number, vector in enumerate(vectors)
    ]


async def put_all(store: EmbeddingStore, items: Sequence[Item], version: str = VERSION) -> None:
    began = (await store.get(version, [])).deletions
    for at in range(0, len(items), _SLICE):
        assert not await store.put(version, items[at : at + _SLICE], began)


@dataclass(frozen=True)
class Places:
    """All of them, open."""

    redis: RedisEmbeddings
    postgres: PostgresEmbeddings
    disk: DiskEmbeddings
    redis_server: RedisServer
    postgres_server: PostgresServer


# Reading.


def by_port(store: EmbeddingStore) -> Get:
    async def get(digests: Sequence[ContentDigest]) -> int:
        found = (await store.get(VERSION, digests)).values
        return sum(unpack(value, KIND) is not None for value in found.values())

    return get


async def by_redis_py(server: RedisServer, stack: AsyncExitStack) -> Get:
    """Return the client that is installed; both have the same ancestors and calls."""
    try:
        client: Any = importlib.import_module("redis.asyncio").Redis(port=server.port)
    except ImportError:
        client = importlib.import_module("valkey.asyncio").Valkey(port=server.port)
    stack.push_async_callback(client.aclose)

    async def get(digests: Sequence[ContentDigest]) -> int:
        names = [f"emb:{VERSION}:{digest.hex()}" for digest in digests]
        values = [await client.get(names[0])] if len(names) == 1 else await client.mget(names)
        return sum(
            np.frombuffer(value, np.float32, offset=HEADER_BYTES).size == DIMENSIONS
            for value in values
        )

    return get


async def by_asyncpg(server: PostgresServer, stack: AsyncExitStack) -> Get:
    connection = await asyncpg.connect(server.url)
    stack.push_async_callback(connection.close)
    statement = await connection.prepare(statements.get(EmbeddingSchema("stepwell"), VERSION))

    async def get(digests: Sequence[ContentDigest]) -> int:
        rows = await statement.fetch(list(digests))
        return sum(
            np.frombuffer(value, np.float32, offset=HEADER_BYTES).size == DIMENSIONS
            for _, _, value in rows
        )

    return get


async def measure_gets(places: Places, items: Sequence[Item], rounds: int) -> list[dict[str, Any]]:
    digests = [item.digest for item in items]
    rows = []
    async with AsyncExitStack() as stack:
        contenders: Mapping[str, Get] = {
            "redis": by_port(places.redis),
            "bare redis": await by_redis_py(places.redis_server, stack),
            "postgres": by_port(places.postgres),
            "bare postgres": await by_asyncpg(places.postgres_server, stack),
            "disk": by_port(places.disk),
        }
        for count in AT_A_TIME:
            times: dict[str, list[float]] = {name: [] for name in contenders}
            for _ in range(rounds):
                asked = random.sample(digests, count)
                # In another order each time: who comes first finds colder caches.
                for name, get in random.sample(list(contenders.items()), len(contenders)):
                    started = time.perf_counter()
                    assert await get(asked) == count
                    times[name].append(time.perf_counter() - started)
            low = {name: sorted(taken)[len(taken) // 10] for name, taken in times.items()}
            rows += [
                {
                    "get": count,
                    "of": name,
                    "us": taken * 1e6,
                    "x redis": taken / low["redis"],
                    "x bare redis": taken / low["bare redis"],
                }
                for name, taken in low.items()
            ]
    return rows


# Size.


async def measure_bytes(places: Places, count: int) -> list[dict[str, Any]]:
    sizes: dict[str, float] = {}
    for precision in ("f32", "f16", "i8"):
        kind = replace(KIND, precision=precision)
        items = make_items(count, kind)
        places.redis_server.ask("FLUSHALL")
        before = int(places.redis_server.info("memory")["used_memory_dataset"])
        await put_all(places.redis, items, kind.version)
        after = int(places.redis_server.info("memory")["used_memory_dataset"])
        keys = after - before + _overhead(places.redis_server)
        sizes[f"redis {precision}"] = keys / count
    sizes["postgres f32"] = await _postgres_bytes(places)
    places.redis_server.ask("FLUSHALL")
    return [
        {"bytes in": name, "bytes": size, "x numbers": size / (DIMENSIONS * 4)}
        for name, size in sizes.items()
    ]


def _overhead(server: RedisServer) -> int:
    """Return what the tables of keys and ends take, which the server does not call data."""
    stats = server.ask("MEMORY", "STATS")
    told = dict(zip(stats[::2], stats[1::2], strict=True))
    tables = told.get(b"db.0", [])
    return sum(value for value in tables[1::2] if isinstance(value, int))


async def _postgres_bytes(places: Places) -> float:
    (figures,) = await places.postgres.versions()
    return figures.bytes / figures.vectors


# Retiring.


async def measure_retire(places: Places, count: int) -> list[dict[str, Any]]:
    postgres = places.postgres
    items = make_items(count)
    taken: dict[str, float] = {}
    for way in ("partition", "delete and vacuum"):
        kind = VectorKind("here", way)
        await postgres.register(kind, at_most=10)
        await put_all(postgres, items, kind.version)
        table = EmbeddingSchema("stepwell").partition(kind.version)
        connection = await asyncpg.connect(places.postgres_server.url)
        await connection.execute("CHECKPOINT")
        started = time.perf_counter()
        if way == "partition":
            await postgres.retire(kind.version)
        else:
            await connection.execute(f"DELETE FROM {table}")
            await connection.execute(f"VACUUM {table}")
        taken[way] = time.perf_counter() - started
        await connection.close()
        if way != "partition":
            await postgres.retire(kind.version)
    return [
        {"retire": f"{count} by {way}", "ms": seconds * 1e3, "x partition": seconds / least}
        for way, seconds in taken.items()
        if (least := taken["partition"])
    ]


# Filling Redis again.


class Nobody:
    """A provider that is never to be asked."""

    def __init__(self) -> None:
        self.pace = Pace()

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Fail."""
        raise NoAnswer(f"{len(inputs)} texts were not in PostgreSQL")


async def measure_refill(places: Places, count: int) -> list[dict[str, Any]]:
    stores = Stores(caches=(places.redis,), full=places.postgres, claims=places.redis)
    cache = EmbeddingCache(Ignored(), stores=stores, bounds=Bounds(memory_bytes=0))
    texts = [f"text {number}" for number in range(count)]
    places.redis_server.ask("FLUSHALL")
    started = time.perf_counter()
    for at in range(0, count, _SLICE):
        batch = await cache.get_many(KIND, texts[at : at + _SLICE], Nobody())
        assert len(batch.items) == len(texts[at : at + _SLICE])
    while places.redis_server.ask("DBSIZE") < count:  # noqa: ASYNC110  (nobody tells)
        await asyncio.sleep(0.005)
    seconds = time.perf_counter() - started
    return [{"refill": count, "vectors a second": count / seconds, "hit ratio": 1.0}]


# One that is silent.

ASKED = 1_000


class Anybody:
    """A provider that answers at once, and counts."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.computed = 0

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Return vectors of ones."""
        self.computed += len(inputs)
        return Reply([*np.ones((len(inputs), DIMENSIONS), np.float32)])


async def measure_outage(servers: Places, count: int) -> list[dict[str, Any]]:
    places = await assembly.open_places(
        assembly.Places(
            None,
            Redis(url=servers.redis_server.url),
            Postgres(url=servers.postgres_server.url),
        ),
        clock=SystemClock(),
        events=Ignored(),
    )
    bounds = Bounds(memory_bytes=0, canary_seconds=None)
    cache = EmbeddingCache(Ignored(), stores=places.stores, bounds=bounds)
    rows = [await _asked(cache, "nothing", count)]
    for what, server in (("redis", servers.redis_server), ("postgres", servers.postgres_server)):
        server.pause()
        rows.append(await _asked(cache, what, count))
        server.resume()
        while places.troubles():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.05)
    await cache.aclose()
    return rows


async def _asked(cache: EmbeddingCache, stopped: str, count: int) -> dict[str, Any]:
    provider, took = Anybody(), []
    for number in range(count):
        started = time.perf_counter()
        await cache.get_many(KIND, [f"text {number}"], provider)
        took.append(1e3 * (time.perf_counter() - started))
    p50, p99 = np.percentile(took, [50, 99])
    worst = {"p50 ms": p50, "p99 ms": p99, "most ms": max(took)}
    return {"stopped": stopped, **worst, "computed": provider.computed}


async def run(places: Places, *, smoke: bool) -> dict[str, list[dict[str, Any]]]:
    """Measure everything."""
    count, rounds = (600, 10) if smoke else (20_000, 200)
    items = make_items(count)
    for store in (places.postgres, places.disk):
        await store.register(KIND, at_most=10)
    for each in (places.redis, places.postgres, places.disk):
        await put_all(each, items)
    places.postgres_server.query("VACUUM ANALYZE")
    results = {"get": await measure_gets(places, items, rounds)}
    results["bytes"] = await measure_bytes(places, min(count, 5_000))
    results["retire"] = await measure_retire(places, min(count, 10_000))
    results["refill"] = await measure_refill(places, min(count, 10_000))
    results["outage"] = await measure_outage(places, min(count, ASKED))
    return results


async def main_async(directory: Path, *, smoke: bool) -> dict[str, list[dict[str, Any]]]:
    with ExitStack() as servers:
        redis = servers.enter_context(redis_servers()).start(program=REDIS or VALKEY)
        postgres = servers.enter_context(postgres_server())
        async with AsyncExitStack() as stack:
            places = Places(
                await open_redis_embeddings(redis.url),
                await open_postgres_embeddings(postgres.url),
                await DiskEmbeddings.open(
                    directory,
                    max_bytes=2**30,
                    clock=SystemClock(),
                    events=Ignored(),
                    timeout_seconds=30.0,
                ),
                redis,
                postgres,
            )
            for store in (places.redis, places.postgres, places.disk):
                stack.push_async_callback(store.aclose)
            return await run(places, smoke=smoke)


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as directory:
        loop = fast_loop()
        with asyncio.Runner(loop_factory=loop) as runner:
            results = runner.run(main_async(Path(directory), smoke=arguments.smoke))
    columns = {
        "get": ["get", "of", "us", "x redis", "x bare redis"],
        "bytes": ["bytes in", "bytes", "x numbers"],
        "retire": ["retire", "ms", "x partition"],
        "refill": ["refill", "vectors a second", "hit ratio"],
        "outage": ["stopped", "p50 ms", "p99 ms", "most ms", "computed"],
    }
    for name, rows in results.items():
        print_table(rows, columns[name])
        print()
    write("embedding_stores", results, arguments.json)


if __name__ == "__main__":
    main()
