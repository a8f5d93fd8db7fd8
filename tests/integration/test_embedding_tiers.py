"""The embedding cache over a real Redis and PostgreSQL that go away and come back."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from support.embedding_provider import KIND, FakeProvider, Heard, model
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import RedisServer, redis_servers, wait_until

from stepwell.assembly.embedding import OpenedPlaces, Places, open_places
from stepwell.assembly.embedding_audit import Audit, Audited
from stepwell.assembly.settings import Postgres, Redis
from stepwell.core.clock import SystemClock
from stepwell.core.embedding import VectorKind
from stepwell.core.embedding_events import Source
from stepwell.core.events import Event
from stepwell.embedding.cache.cache import Batch, Bounds, EmbeddingCache

TEXTS = [f"text {number}" for number in range(60)]
_PATIENT = 10.0


class Ignored:
    """A sink for events nobody looks at."""

    def emit(self, event: Event) -> None:
        """Drop ``event``."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start("maxmemory 50mb", "maxmemory-policy volatile-lru")


@asynccontextmanager
async def opened(
    postgres: PostgresServer, redis: RedisServer, *, prefix: str, seconds: float = _PATIENT
) -> AsyncIterator[tuple[EmbeddingCache, OpenedPlaces]]:
    """Open both as a gateway does, without a memory before them."""
    places = await open_places(
        Places(
            None,
            Redis(url=redis.url, timeout_seconds=seconds),
            Postgres(url=postgres.url, prefix=prefix),
            read_seconds=seconds,
        ),
        clock=SystemClock(),
        events=Ignored(),
    )
    cache = EmbeddingCache(Heard(), stores=places.stores, bounds=Bounds(memory_bytes=0))
    async with aclosing(cache):
        yield cache, places


def check(batch: Batch, texts: list[str], *sources: Source) -> None:
    """See that each vector is its text's own, and where they came from."""
    for text, embedding in zip(texts, batch.embeddings, strict=True):
        assert np.array_equal(embedding.vector, model(text)), text
    assert set(batch.sources) <= set(sources), set(batch.sources)


async def audited(places: OpenedPlaces) -> Audited:
    assert places.full is not None
    return await Audit(places.full, places.redis, settle_seconds=0.2).run(1_000)


async def until_well(places: OpenedPlaces) -> None:
    async with asyncio.timeout(30):
        while places.troubles():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.02)


async def test_redis_is_emptied_killed_and_comes_back(
    postgres: PostgresServer, redis: RedisServer
) -> None:
    """Every text is found all the while, nothing is computed twice, and the tiers agree."""
    provider = FakeProvider()
    async with opened(postgres, redis, prefix="a") as (cache, places):
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.ORIGIN)
        await cache.flush()
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.REDIS)
        redis.ask("FLUSHALL")
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.POSTGRES)
        await asyncio.to_thread(wait_until, lambda: redis.ask("DBSIZE") == len(TEXTS))
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.REDIS)
        redis.kill()
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.POSTGRES)
        assert set(places.troubles()) == {"embeddings.redis"}
        redis.start()
        await until_well(places)
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.POSTGRES)
        await asyncio.to_thread(wait_until, lambda: redis.ask("DBSIZE") == len(TEXTS))
        assert not [it for it in (await audited(places)).differences if it.what != "eviction"]
    assert set(provider.sent.values()) == {1}


async def test_postgres_is_killed_and_comes_back(
    postgres: PostgresServer, redis: RedisServer
) -> None:
    """What Redis has is served; what is computed meanwhile is written when it is back."""
    provider, later = FakeProvider(), [f"later {number}" for number in range(20)]
    async with opened(postgres, redis, prefix="b", seconds=1.0) as (cache, places):
        await cache.get_many(KIND, TEXTS, provider)
        await cache.flush()
        postgres.kill()
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.REDIS)
        check(await cache.get_many(KIND, later, provider), later, Source.ORIGIN)
        # Nothing gets into Redis that PostgreSQL does not have.
        assert redis.ask("DBSIZE") - len(redis.ask("KEYS", "embclaim:*")) == len(TEXTS)
        await asyncio.to_thread(postgres.start)
        await until_well(places)
        assert await cache.flush(30) == 0
        found = await audited(places)
        assert not found.differences
        assert found.full_read == found.compared == len(TEXTS) + len(later)
    assert set(provider.sent.values()) == {1}


async def test_silent_servers_cost_their_budget(
    postgres: PostgresServer, redis: RedisServer
) -> None:
    """Both paused: what is asked for is computed, within what both may take."""
    provider = FakeProvider()
    async with opened(postgres, redis, prefix="c", seconds=0.2) as (cache, places):
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.ORIGIN)
        assert await cache.flush(30) == 0
        redis.pause()
        postgres.pause()
        started = time.monotonic()
        for text in TEXTS[:5]:
            check(await cache.get_many(KIND, [text], provider), [text], Source.ORIGIN)
        # Redis, PostgreSQL and the claim, each.
        assert time.monotonic() - started < 5 * 3 * 0.2 + 1.0
        redis.resume()
        postgres.resume()
        await until_well(places)
        assert await cache.flush(30) == 0
        assert not (await audited(places)).differences


async def test_deletions_and_late_fills_over_all_tiers(
    postgres: PostgresServer, redis: RedisServer
) -> None:
    """Two gateways that read, compute and delete the same texts all at once: the tiers agree."""
    texts = TEXTS[:4]
    async with (
        opened(postgres, redis, prefix="d") as (one, places),
        opened(postgres, redis, prefix="d") as (other, _),
    ):

        async def read(cache: EmbeddingCache) -> None:
            for _ in range(30):
                check(await cache.get_many(KIND, texts, FakeProvider()), texts, *Source)
                await asyncio.sleep(0)

        async def delete(cache: EmbeddingCache) -> None:
            for number in range(30):
                await cache.delete(KIND, texts[number % 4 :][:2])
                await asyncio.sleep(0.003)

        await asyncio.gather(read(one), read(other), read(one), delete(one), delete(other))
        await asyncio.gather(one.flush(), other.flush())
        await one.delete(KIND, texts[:2])
        found = await audited(places)
        assert not found.differences
        assert found.deletions == 4
        assert places.full is not None
        assert len(await places.full.sample(KIND.version, 10)) <= 2


async def test_two_versions_at_once(postgres: PostgresServer, redis: RedisServer) -> None:
    """No vector of one is ever served as one of the other; one goes, and the other stays."""
    new = VectorKind("here", "model", revision="2")
    old_provider, new_provider = FakeProvider(), FakeProvider(seed="new")
    async with opened(postgres, redis, prefix="e") as (cache, places):

        async def ask(kind: VectorKind, provider: FakeProvider, seed: str) -> None:
            for at in range(0, 40, 5):
                some = TEXTS[at : at + 20]
                batch = await cache.get_many(kind, some, provider)
                for text, embedding in zip(some, batch.embeddings, strict=True):
                    assert np.array_equal(embedding.vector, model(text, seed))

        await asyncio.gather(ask(KIND, old_provider, ""), ask(new, new_provider, "new"))
        await cache.flush()
        assert places.full is not None
        await places.full.retire(KIND.version)
        for store in places.stores.caches:
            await store.retire(KIND.version)
        await ask(new, new_provider, "new")
        assert set(new_provider.sent.values()) == {1}
        old_keys = redis.ask("KEYS", f"emb:{KIND.version}:*")
        assert old_keys
        assert all(0 < redis.ask("TTL", key) <= 90 for key in old_keys)
        assert not (await audited(places)).differences


async def test_on_disk_with_redis_before_it(redis: RedisServer, tmp_path: Path) -> None:
    """Without PostgreSQL the file is the full store."""
    places = await open_places(
        Places(tmp_path, Redis(url=redis.url, timeout_seconds=_PATIENT), read_seconds=_PATIENT),
        clock=SystemClock(),
        events=Ignored(),
    )
    provider = FakeProvider()
    cache = EmbeddingCache(Heard(), stores=places.stores, bounds=Bounds(memory_bytes=0))
    async with aclosing(cache):
        await cache.get_many(KIND, TEXTS, provider)
        await cache.flush()
        redis.ask("FLUSHALL")
        check(await cache.get_many(KIND, TEXTS, provider), TEXTS, Source.DISK)
        assert not (await audited(places)).differences
