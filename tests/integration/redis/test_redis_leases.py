"""Leases and letters on real servers: who may write, and who hears of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from support.redis_client import OpenServers
from support.redis_cluster import redis_cluster
from support.redis_servers import PATIENCE_SECONDS, RedisServer

from stepwell.core.clock import SystemClock
from stepwell.core.errors import StoreError
from stepwell.core.ports import Claimed
from stepwell.stores.redis import scripts
from stepwell.stores.redis.post import Post
from stepwell.stores.redis.store import RedisStore
from stepwell.testing.entries import make_key

from .test_redis_store import PREFIX, Heard, fresh, until

KEY = fresh().key
LONG_MS, SHORT_MS = 30_000, 30

OpenStore = Callable[[], Awaitable[RedisStore]]


@pytest.fixture
async def open_store(open_at: OpenServers, server: RedisServer) -> AsyncIterator[OpenStore]:
    """Open handles on one server, as several gateways would."""
    opened: list[RedisStore] = []

    async def open_store() -> RedisStore:
        servers = await open_at(server.url)
        store = await RedisStore.open(
            servers, prefix=PREFIX, clock=SystemClock(), events=Heard(), max_lag_seconds=10.0
        )
        opened.append(store)
        return store

    yield open_store
    for store in opened:
        await store.aclose()


async def expire(store: RedisStore) -> None:
    """Return when the lease has run out."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await store.leases.holder(KEY):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_one_has_the_lease(open_store: OpenStore) -> None:
    """The others are told who; it goes with a release, of whoever has it only."""
    one, two = await open_store(), await open_store()
    assert await one.leases.claim(KEY, LONG_MS) == Claimed(is_made=False)
    assert await two.leases.claim(KEY, LONG_MS) == one.post.address
    assert await two.leases.holder(KEY) == one.post.address
    assert await two.leases.claim(make_key("another"), LONG_MS) == Claimed(is_made=False)
    await two.leases.release(KEY)
    assert await two.leases.holder(KEY) == one.post.address
    await one.leases.release(KEY)
    assert await two.leases.holder(KEY) is None
    assert await two.put(fresh())
    assert await two.leases.claim(KEY, LONG_MS) == Claimed(is_made=True)


async def test_a_lease_taken_twice_goes_with_the_second_release(open_store: OpenStore) -> None:
    """A call that was launched anew is not left without it by the end of the older one."""
    store = await open_store()
    for _ in range(2):
        assert isinstance(await store.leases.claim(KEY, LONG_MS), Claimed)
    await store.leases.release(KEY)
    assert await store.leases.holder(KEY) == store.post.address
    await store.leases.release(KEY)
    assert await store.leases.holder(KEY) is None


async def test_a_lease_is_held_while_it_is_renewed(open_store: OpenStore) -> None:
    """One that ran out is taken again, unless somebody has it, or wrote meanwhile."""
    one, two = await open_store(), await open_store()
    await one.leases.claim(KEY, SHORT_MS)
    await one.leases.renew(LONG_MS)
    await asyncio.sleep(2 * SHORT_MS / 1000)
    assert await two.leases.claim(KEY, LONG_MS) == one.post.address

    await one.leases.renew(SHORT_MS)
    await expire(one)
    await one.leases.renew(LONG_MS)
    assert await two.leases.holder(KEY) == one.post.address

    await one.leases.renew(SHORT_MS)
    await expire(one)
    assert isinstance(await two.leases.claim(KEY, LONG_MS), Claimed)
    await one.leases.renew(LONG_MS)
    assert await two.leases.holder(KEY) == two.post.address
    await two.put(fresh())
    await two.leases.release(KEY)
    await one.leases.renew(LONG_MS)
    assert await two.leases.holder(KEY) is None


async def test_who_lost_the_lease_writes_over_nobody(open_store: OpenStore) -> None:
    """Not while its successor is at it, and not when that one has written and gone."""
    one, two = await open_store(), await open_store()
    await one.leases.claim(KEY, SHORT_MS)
    await expire(one)
    await two.leases.claim(KEY, LONG_MS)
    assert await one.put(fresh(body=b"late")) is False
    assert await one.get(KEY) is None
    newer = fresh(body=b"newer")
    assert await two.put(newer)
    assert await one.put(fresh(body=b"late")) is False
    await two.leases.release(KEY)
    assert await one.put(fresh(body=b"late")) is False
    assert await one.get(KEY) == newer


async def test_a_lease_that_ran_out_costs_no_answer(open_store: OpenStore) -> None:
    """Nobody wrote meanwhile."""
    store = await open_store()
    await store.leases.claim(KEY, SHORT_MS)
    await expire(store)
    entry = fresh()
    assert await store.put(entry)
    assert await store.get(KEY) == entry


async def test_who_has_the_lease_replaces_what_is_stale(open_store: OpenStore) -> None:
    """And who needs none, too."""
    one, two = await open_store(), await open_store()
    await one.put(fresh(body=b"stale"))
    await one.leases.claim(KEY, LONG_MS)
    newer = fresh(body=b"newer")
    assert await one.put(newer)
    assert await two.get(KEY) == newer
    assert await two.put(fresh(body=b"forced"))


class Letters:
    """What one gateway got."""

    def __init__(self, post: Post) -> None:
        self.got: list[bytes] = []
        post.start(self.got.append)


async def test_letters_come_in_the_order_they_were_sent(open_store: OpenStore) -> None:
    """All of them, to nobody else, also those that were sent before somebody read."""
    one, two, three = [await open_store() for _ in range(3)]
    sent = [b"%d" % number for number in range(250)]
    for letter in sent[:50]:
        await one.post.send(two.post.address, letter)
    letters, others = Letters(two.post), Letters(three.post)
    for letter in sent[50:]:
        await one.post.send(two.post.address, letter)
    await until(lambda: len(letters.got) == len(sent))
    assert letters.got == sent
    assert others.got == []


async def test_letters_come_after_an_outage(open_store: OpenStore, server: RedisServer) -> None:
    """Without a restart of the reader."""
    one, two = await open_store(), await open_store()
    letters = Letters(two.post)
    server.kill()
    with pytest.raises(StoreError):
        await one.post.send(two.post.address, b"lost")
    server.start()

    async def sent() -> bool:
        try:
            await one.post.send(two.post.address, b"after")
        except StoreError:
            return False
        return True

    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await sent():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        while b"after" not in letters.got:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_letters_nobody_reads_are_bounded(open_store: OpenStore, server: RedisServer) -> None:
    """In number, and in time."""
    one, two = await open_store(), await open_store()
    for _ in range(scripts.MAX_LETTERS):
        await one.post.send(two.post.address, b"letter")
    with pytest.raises(StoreError, match="does not read"):
        await one.post.send(two.post.address, b"letter")
    (inbox,) = server.ask("KEYS", "tests:i:*")
    assert server.ask("LLEN", inbox) == scripts.MAX_LETTERS
    assert 0 < server.ask("PTTL", inbox) <= 10_000


@pytest.mark.slow
async def test_leases_and_letters_in_a_cluster(open_at: OpenServers) -> None:
    """Each lease is beside its entry, each inbox somewhere."""
    with redis_cluster() as cluster:
        one, two = [
            await RedisStore.open(
                await open_at(cluster.url), prefix=PREFIX, clock=SystemClock(), events=Heard()
            )
            for _ in range(2)
        ]
        letters = Letters(two.post)
        for number in range(20):
            key = make_key(f"{number}")
            assert await one.leases.claim(key, LONG_MS) == Claimed(is_made=False)
            assert await two.leases.claim(key, LONG_MS) == one.post.address
            assert await one.put(fresh(f"{number}"))
            await one.post.send(two.post.address, b"%d" % number)
        await until(lambda: len(letters.got) == 20)
        for store in (one, two):
            await store.aclose()


async def test_a_lease_that_is_none_of_ours(open_store: OpenStore, server: RedisServer) -> None:
    """Whatever stands there, somebody seems to hold it."""
    store = await open_store()
    await store.leases.claim(KEY, LONG_MS)
    (name,) = server.ask("KEYS", "tests:l:*")
    server.ask("SET", name, b"\xff\xfe")
    assert await store.leases.claim(KEY, LONG_MS) == "\ufffd\ufffd"
    assert await store.leases.holder(KEY) == "\ufffd\ufffd"


async def test_who_has_slept_can_still_write(open_store: OpenStore) -> None:
    """When it has heard what happened meanwhile."""
    store = await open_store()
    store._feed._valid_until = 0.0
    assert await store.put(fresh())
