"""Places where vectors stand, on real servers that fail, are emptied, full, or late."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import pytest
from meta.repository import ROOT
from support.embedding_stores import (
    make_items,
    open_postgres_embeddings,
    open_redis_embeddings,
)
from support.postgres_server import PostgresServer, postgres_server
from support.redis_client import Changes, fail_until_open
from support.redis_cluster import RedisCluster
from support.redis_servers import REDIS, VALKEY, RedisServer, Servers, redis_servers

from stepwell.core.embedding import ContentDigest, Deletions, VectorKind
from stepwell.core.errors import StoreError, StoreFull, StoreUnavailable, VersionTaken
from stepwell.stores.postgres.embeddings.schema import EmbeddingSchema
from stepwell.stores.postgres.embeddings.store import PostgresEmbeddings
from stepwell.stores.redis.embedding_survey import Survey
from stepwell.stores.redis.embeddings import TOMBSTONE
from stepwell.testing.clock import HandClock

KIND = VectorKind("here", "small")
VERSION = KIND.version
NONE = Deletions(0)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def launcher() -> Iterator[Servers]:
    with redis_servers() as launcher:
        yield launcher


@pytest.fixture(params=["valkey", "redis"])
def redis(launcher: Servers, request: pytest.FixtureRequest) -> RedisServer:
    if request.param == "redis" and REDIS is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    return launcher.start(program=VALKEY if request.param == "valkey" else str(REDIS))


@pytest.fixture
async def full(
    postgres: PostgresServer, request: pytest.FixtureRequest
) -> AsyncIterator[PostgresEmbeddings]:
    """PostgreSQL with a version of the test's own."""
    prefix = f"t{abs(hash(request.node.name)) % 10**12}"
    async with aclosing(await open_postgres_embeddings(postgres.url, prefix)) as store:
        await store.register(KIND, at_most=10)
        yield store


async def test_every_key_has_an_end(redis: RedisServer) -> None:
    """Vectors, deletions and claims; and vectors written together do not end together."""
    items = make_items(300)
    async with aclosing(await open_redis_embeddings(redis.url, ttl_seconds=10_000)) as store:
        await store.put(VERSION, items, NONE)
        await store.delete(VERSION, [items[0].digest])
        await store.claim(VERSION, [items[1].digest], 5_000)
        ends = {key: redis.ask("TTL", key) for key in redis.ask("KEYS", "*")}
        assert len(ends) == 301
        deleted = f"emb:{VERSION}:{items[0].digest.hex()}".encode()
        assert redis.ask("GET", deleted) == TOMBSTONE
        assert 0 < ends.pop(deleted) <= 60
        assert 0 < ends.pop(f"embclaim:{VERSION}:{items[1].digest.hex()}".encode()) <= 5
        assert 9_000 - 1 <= min(ends.values()) < 9_500
        assert 10_500 < max(ends.values()) <= 11_000
        await store.retire(VERSION)
        assert all(0 < redis.ask("TTL", key) <= 90 for key in ends)
        assert 0 < redis.ask("TTL", deleted) <= 60


async def test_a_user_with_the_documented_rights(launcher: Servers) -> None:
    """It can do all that is done, and survey what is there."""
    server = launcher.start()
    for page in ("redis.md", "embedding-stores.md"):
        text = (ROOT / "docs" / "how-to" / page).read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("ACL SETUSER")]
        server.ask(*line.split())
    items = make_items(5)
    digests = [item.digest for item in items]
    url = server.url.replace("//", "//stepwell:password@")
    async with aclosing(await open_redis_embeddings(url)) as store:
        await store.put(VERSION, items, NONE)
        assert await store.delete(VERSION, digests[:1]) == 1
        assert len((await store.get(VERSION, digests)).values) == 4
        assert set(await store.claim(VERSION, digests, 1_000)) == set(digests)
        await store.release(VERSION, digests)
        survey = Survey(store._servers, prefix="")
        assert len((await survey.sample(10)).standing) == 4
        assert len(await survey.evictions()) == 1
        await store.retire(VERSION)


async def test_retiring_one_version_leaves_the_others(redis: RedisServer) -> None:
    """Also one whose name begins so, and what is no vector."""
    async with aclosing(await open_redis_embeddings(redis.url, ttl_seconds=10_000)) as store:
        for version in ("a-0", "a-01", "a"):
            await store.put(version, make_items(20), NONE)
        redis.ask("SET", "emb", "x")
        await store.retire("a-0")
        going = {key for key in redis.ask("KEYS", "*") if 0 < redis.ask("TTL", key) <= 90}
        assert len(going) == 20
        assert all(key.startswith(b"emb:a-0:") for key in going)


async def test_an_emptied_redis_is_filled_from_postgres(
    redis: RedisServer, full: PostgresEmbeddings
) -> None:
    """Nothing is lost by ``FLUSHALL``, and scripts that the server forgot are sent again."""
    items = make_items(100)
    digests = [item.digest for item in items]
    async with aclosing(await open_redis_embeddings(redis.url)) as store:
        await full.put(VERSION, items, NONE)
        await store.put(VERSION, items, NONE)
        await store.delete(VERSION, digests[:1])
        redis.ask("FLUSHALL")
        redis.ask("SCRIPT", "FLUSH")
        assert not (await store.get(VERSION, digests)).values
        found = await full.get(VERSION, digests)
        assert found.values == {item.digest: item.value for item in items}
        await store.put(VERSION, items, found.deletions)
        assert (await store.get(VERSION, digests)).values == found.values
        assert await store.delete(VERSION, digests[:1]) == 1


async def test_a_full_redis_answers_on(launcher: Servers) -> None:
    """What does not fit is refused and said; what is there is served, and can be deleted."""
    server = launcher.start("maxmemory 4mb", "maxmemory-policy noeviction")
    items = make_items(600, size_bytes=8_000)
    async with aclosing(await open_redis_embeddings(server.url)) as store:
        with pytest.raises(StoreFull, match="no memory left"):
            await store.put(VERSION, items, NONE)
        found = (await store.get(VERSION, [item.digest for item in items])).values
        assert 0 < len(found) < len(items)
        first = next(iter(found))
        with pytest.raises(StoreFull):
            await store.put(VERSION, items[-1:], NONE)
        assert await store.delete(VERSION, [first]) == 1
        assert first not in (await store.get(VERSION, [first])).values


async def test_a_redis_that_evicts_is_bounded(launcher: Servers) -> None:
    """With room for some hundred, the last ones are there."""
    server = launcher.start("maxmemory 4mb", "maxmemory-policy volatile-lru")
    items = make_items(2_000, size_bytes=8_000)
    async with aclosing(await open_redis_embeddings(server.url)) as store:
        await store.put(VERSION, items, NONE)
        found = (await store.get(VERSION, [item.digest for item in items])).values
        assert 50 < len(found) < 500
        assert int(server.info("memory")["used_memory"]) < 5 << 20


async def test_a_silent_redis_costs_its_budget(redis: RedisServer) -> None:
    """Paused, then killed: calls fail within their time, soon at once; then it is used again."""
    changes, items = Changes(), make_items(10)
    digests = [item.digest for item in items]
    opened = await open_redis_embeddings(redis.url, timeout_seconds=0.2, changes=changes)
    async with aclosing(opened) as store:
        await store.put(VERSION, items, NONE)
        redis.pause()
        await fail_until_open(changes, lambda: store.get(VERSION, digests))
        redis.resume()
        await changes.closed()
        assert len((await store.get(VERSION, digests)).values) == 10
        redis.kill()
        with pytest.raises(StoreUnavailable):
            await store.get(VERSION, digests)
        redis.start()
        await changes.closed()
        assert not (await store.get(VERSION, digests)).values


@pytest.mark.slow
async def test_a_cluster_without_one_master(launcher: Servers) -> None:
    """What stands on the others is served; what does not is missing, and no error."""
    cluster = RedisCluster(launcher)
    items = make_items(300)
    digests = [item.digest for item in items]
    opened = await open_redis_embeddings(cluster.url, timeout_seconds=0.5)
    async with aclosing(opened) as store:
        await store.put(VERSION, items, NONE)
        assert len((await store.get(VERSION, digests)).values) == 300
        lost = cluster.masters()[0]
        lost.pause()
        found = (await store.get(VERSION, digests)).values
        assert 100 < len(found) < 300
        lost.resume()
        await store.retire(VERSION)
        ends = [
            server.ask("TTL", key)
            for server in cluster.masters()
            for key in server.ask("KEYS", "*")
        ]
        assert len(ends) == 300
        assert max(ends) <= 90


async def test_what_one_register_refuses(full: PostgresEmbeddings) -> None:
    """Two kinds never share a version, though their names would."""

    class Impostor(VectorKind):
        version = VERSION  # as if 48 bits were equal

    await full.register(KIND, at_most=1)
    with pytest.raises(VersionTaken):
        await full.register(Impostor("elsewhere", "small"), at_most=1)


async def test_gateways_that_meet_a_version_at_once(postgres: PostgresServer) -> None:
    """One makes its partition; all write into it; and the bound on versions holds."""
    stores = await asyncio.gather(
        *(open_postgres_embeddings(postgres.url, "together") for _ in range(6))
    )
    items = make_items(200)
    kinds = [VectorKind("here", f"model {number}") for number in range(6)]

    async def work(store: PostgresEmbeddings, number: int) -> int:
        refused = 0
        for kind in kinds[number:] + kinds[:number]:
            try:
                await store.register(kind, at_most=4)
            except StoreFull:
                refused += 1
            else:
                some = items[::-1] if number % 2 else items
                assert not await store.put(kind.version, some, NONE)
        return refused

    refused = await asyncio.gather(*map(work, stores, range(6)))
    assert refused == [2] * 6
    figures = await stores[0].versions()
    assert [it.vectors for it in figures] == [200] * 4
    for store in stores:
        await store.aclose()


async def test_a_late_writer_never_undoes_a_deletion(full: PostgresEmbeddings) -> None:
    """Writers that began before deletions, and deletions, over and over, all at once."""
    items = make_items(4)
    digests = [item.digest for item in items]
    late_writes = 0

    async def write(pause_seconds: float) -> None:
        nonlocal late_writes
        for _ in range(40):
            began = (await full.get(VERSION, digests)).deletions
            await asyncio.sleep(pause_seconds)
            late_writes += len(await full.put(VERSION, items, began))

    async def delete() -> None:
        for _ in range(40):
            await full.delete(VERSION, digests)
            deleted_at = (await full.get(VERSION, [])).deletions
            stale = Deletions(deleted_at - 1)
            assert set(await full.put(VERSION, items, stale)) == set(digests)
            await asyncio.sleep(0.001)

    await asyncio.gather(write(0.0), write(0.002), write(0.005), delete())
    assert late_writes > 0
    began = (await full.get(VERSION, digests)).deletions
    await full.delete(VERSION, digests)
    assert set(await full.put(VERSION, items, began)) == set(digests)
    assert not (await full.get(VERSION, digests)).values


async def test_old_deletions_are_forgotten_and_old_writers_refused(
    full: PostgresEmbeddings, postgres: PostgresServer
) -> None:
    """Who began before the oldest deletion that is known may write nothing at all."""
    first, second, third = make_items(3)
    began = (await full.get(VERSION, [])).deletions
    await full.delete(VERSION, [first.digest])
    schema = full._schema
    postgres.query(f"UPDATE {schema.deleted} SET deleted_at = now() - interval '2 hours'")
    await full.delete(VERSION, [second.digest])
    assert list(await full.deleted(VERSION, 10)) == [second.digest]
    assert list(await full.put(VERSION, [third], began)) == [third.digest]
    now = (await full.get(VERSION, [])).deletions
    assert not await full.put(VERSION, [first, second, third], now)


async def test_uses_are_written_once_a_day(postgres: PostgresServer) -> None:
    """Reads, and what other tiers tell of; by that order a new version is filled."""
    clock = HandClock(1_000 * 86_400.0)
    opened = await open_postgres_embeddings(postgres.url, "uses", clock=clock)
    items = make_items(6)
    digests = [item.digest for item in items]
    async with aclosing(opened) as store:
        await store.register(KIND, at_most=1)
        await store.put(VERSION, items, NONE)
        clock.seconds += 86_400
        await store.get(VERSION, digests[2:3])
        await store._uses.aclose()
        clock.seconds += 86_400
        store.touch(VERSION, digests[4:5])
        store.touch("none", digests)
        await store._uses.aclose()
        known = await store.unfilled(VERSION, "none", 10)
        assert [text.digest for text in known][:2] == [digests[4], digests[2]]
        assert [text.used_at / 86_400 for text in known] == [1_002, 1_001, *[1_000] * 4]
        (figures,) = await store.versions()
        assert figures.used_at == 1_002 * 86_400
    assert EmbeddingSchema("uses").partition(VERSION) in postgres.query(
        "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'uses_embeddings'::regclass"
    )


async def test_a_database_that_is_emptied_is_set_up_again(postgres: PostgresServer) -> None:
    """Tables that somebody dropped are made anew."""
    changes = Changes()
    opened = await open_postgres_embeddings(postgres.url, "dropped", changes=changes)
    async with aclosing(opened) as store:
        await store.register(KIND, at_most=1)
        postgres.query(
            "DROP TABLE dropped_embeddings, dropped_embedding_versions, dropped_embedding_claims,"
            " dropped_embedding_deleted, dropped_embedding_canaries, dropped_embedding_deletions"
        )
        with pytest.raises(StoreError):
            await store.get(VERSION, [])
        await changes.closed()
        assert not (await store.get(VERSION, [])).values
        await store.register(KIND, at_most=1)


class Writes:
    """Batches of twenty that are written one after the other, whatever happens."""

    def __init__(self, store: PostgresEmbeddings) -> None:
        self._store = store
        self.acknowledged: set[ContentDigest] = set()
        self.attempted: dict[ContentDigest, bytes] = {}
        self._more = asyncio.Event()

    async def go_on(self) -> None:
        for number in itertools.count():
            items = make_items(20, beginning=f"batch {number}")
            self.attempted.update((item.digest, item.value) for item in items)
            try:
                assert not await self._store.put(VERSION, items, NONE)
            except StoreError:
                await asyncio.sleep(0.01)
            else:
                self.acknowledged.update(item.digest for item in items)
                self._more.set()

    async def more(self) -> None:
        """Return after a few more batches."""
        for _ in range(5):
            self._more.clear()
            await self._more.wait()

    async def found(self) -> dict[ContentDigest, bytes]:
        digests, found = list(self.attempted), dict[ContentDigest, bytes]()
        for at in range(0, len(digests), 100):
            found.update((await self._store.get(VERSION, digests[at : at + 100])).values)
        return found


@pytest.mark.slow
async def test_a_postgres_that_is_killed(postgres: PostgresServer) -> None:
    """In the middle of transactions: what was acknowledged is there, and nothing by halves."""
    async with aclosing(await open_postgres_embeddings(postgres.url, "killed")) as store:
        await store.register(KIND, at_most=1)
        writes = Writes(store)
        writing = asyncio.create_task(writes.go_on())
        for _ in range(2):
            await writes.more()
            await asyncio.to_thread(postgres.kill)
            with pytest.raises(StoreUnavailable):
                await store.get(VERSION, [])
            await asyncio.to_thread(postgres.start)
            while store.trouble:  # noqa: ASYNC110  (it is back on either connection)
                await asyncio.sleep(0.02)
            await writes.more()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await store.versions()  # behind what was still being written
        found = await writes.found()
        assert writes.acknowledged <= found.keys()
        assert found.items() <= writes.attempted.items()
        assert len(found) % 20 == 0


async def test_a_silent_postgres_costs_its_budget(postgres: PostgresServer) -> None:
    """Paused: calls fail within their time, soon at once; then it is used again."""
    changes = Changes()
    opened = await open_postgres_embeddings(
        postgres.url, "paused", timeout_seconds=0.3, changes=changes
    )
    async with aclosing(opened) as store:
        await store.register(KIND, at_most=1)
        items = make_items(5)
        await store.put(VERSION, items, NONE)
        postgres.pause()
        started = time.monotonic()
        for _ in range(20):
            with pytest.raises(StoreUnavailable):
                await store.get(VERSION, [item.digest for item in items])
        assert time.monotonic() - started < 20 * 0.3
        postgres.resume()
        await changes.closed()
        assert len((await store.get(VERSION, [item.digest for item in items])).values) == 5
