"""Two gateways that share a store and the index that a server searches for them."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway import Gateway, running_gateway
from support.metrics import total
from support.point_servers import until
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import RedisServer, redis_servers, search_module

from stepwell.embedding.supervisor import EmbedderAddress
from stepwell.semantic.valve.valve import load as load_valve
from stepwell.testing.fake_upstream import FakeUpstream

pytestmark = pytest.mark.embedder

STORED = "How do I return shoes that I bought online?"
ASKED = "What is the way to return shoes I bought online?"
NO_STORE = {"Cache-Control": "no-store"}

Start = Callable[[str], AbstractAsyncContextManager[Gateway]]
Server = PostgresServer | RedisServer


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """The store; it has search, whether that is used or not."""
    with redis_servers() as launcher:
        limits = ("maxmemory 64mb", "maxmemory-policy volatile-lru")
        yield launcher.start(*limits, f"loadmodule {search_module()}")


@pytest.fixture(params=["postgres", "redis"])
def server(request: pytest.FixtureRequest, redis: RedisServer) -> Iterator[Server]:
    """Who searches."""
    if request.param == "redis":
        yield redis
        return
    with postgres_server() as postgres:
        yield postgres


@pytest.fixture
def start(
    redis: RedisServer,
    server: Server,
    upstream: FakeUpstream,
    embedder: EmbedderAddress,
    tmp_path: Path,
) -> Start:
    """Start gateways, each with a data directory of its own."""
    # It keeps the loop for as long as it takes; a store that hears nothing so long writes nothing.
    load_valve()
    kind = "postgres" if isinstance(server, PostgresServer) else "redis"
    tables: dict[str, Any] = {
        # Patience: other tests may have the processors.
        "stores": {kind: {"url": server.url}, "redis": {"url": redis.url, "timeout_seconds": 2.0}},
        "semantic": {"timeout_seconds": 10.0, "index": {"kind": kind, "timeout_seconds": 2.0}},
    }

    @asynccontextmanager
    async def start(name: str) -> AsyncIterator[Gateway]:
        directory = tmp_path / name
        async with running_gateway(
            directory, upstream.base_url, tables, embedder=embedder
        ) as gateway:
            yield gateway
        assert not (directory / "semantic").exists()

    return start


@pytest.fixture
async def gateways(start: Start) -> AsyncIterator[tuple[Gateway, Gateway]]:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(start("one"))
        yield one, await stack.enter_async_context(start("two"))


def outcome_of(gateway: Gateway, text: str, **fields: Any) -> Callable[[], Awaitable[str]]:
    """Return what asks, without storing, how a question is answered."""

    async def ask() -> str:
        answer = await gateway.ask(text, headers=NO_STORE, **fields)
        assert answer.status == 200
        return str(answer.headers["x-cache"])

    return ask


def table(server: PostgresServer) -> str:
    return server.query(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'stepwell_points_%'"
    )


def points_in(server: Server, redis: RedisServer) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        if isinstance(server, PostgresServer):
            table = server.query(
                "SELECT relname FROM pg_class WHERE relname LIKE '%\\_points\\_%384'"
            )
            return int(await asyncio.to_thread(server.query, f"SELECT count(*) FROM {table}"))
        return len(redis.ask("KEYS", "stepwell:v:*"))

    return count


async def test_what_one_stores_the_other_finds_by_other_words(
    gateways: tuple[Gateway, Gateway], server: Server, redis: RedisServer, upstream: FakeUpstream
) -> None:
    """One point for both; tenants stay apart; what one invalidates is gone, point and all."""
    one, two = gateways
    assert (await one.ask(STORED, headers={"X-Stepwell-Tags": "shoes"})).status == 200
    await until(points_in(server, redis), 1)
    await until(outcome_of(two, ASKED), "HIT")
    answer = await two.ask(ASKED, headers=NO_STORE)
    assert answer.cache_status.endswith("detail=semantic")
    assert await outcome_of(two, ASKED, key="sk-another")() == "MISS"
    assert await outcome_of(two, ASKED, model="fake-2")() == "MISS"
    assert await points_in(server, redis)() == 1
    removed = await two.post({"tag": "shoes", "dry_run": False}, path="/admin/invalidate", key=None)
    assert json.loads(removed.body) == {"matched": 1, "removed": 1}
    assert await outcome_of(one, ASKED)() == "MISS"
    await until(points_in(server, redis), 0)


async def test_it_survives_a_restart_and_is_made_again(
    start: Start, server: Server, redis: RedisServer
) -> None:
    """A new gateway finds what there is; what is missing, the one that leads embeds again."""
    async with start("one") as gateway:
        assert (await gateway.ask(STORED)).status == 200
        await until(points_in(server, redis), 1)
    if isinstance(server, PostgresServer):
        server.query(f"DELETE FROM {table(server)}")
    else:
        redis.ask("DEL", *redis.ask("KEYS", "stepwell:v:*"))
    assert await points_in(server, redis)() == 0
    async with start("two") as gateway:
        await until(points_in(server, redis), 1)
        await until(outcome_of(gateway, ASKED), "HIT")
    async with start("three") as gateway:
        await until(outcome_of(gateway, ASKED), "HIT")


async def test_an_outage_is_a_miss_and_a_degraded_part(
    gateways: tuple[Gateway, Gateway], server: Server, redis: RedisServer
) -> None:
    """No request fails. The points that the store still has entries for are there afterwards."""
    one, _ = gateways
    assert (await one.ask(STORED)).status == 200
    await until(outcome_of(one, ASKED), "HIT")
    server.pause()
    for number in range(6):
        assert await outcome_of(one, f"{ASKED} {number}")() == "MISS"

    async def degraded() -> bool:
        page = json.loads((await one.get("/readyz")).body)
        assert page["status"] == "ready"
        return "semantic.index" in page["degraded"]

    await until(degraded, wanted=True)
    assert await total(one, "stepwell_degraded", part="semantic.index") == 1
    server.resume()
    await until(degraded, wanted=False)
    assert await total(one, "stepwell_degraded", part="semantic.index") == 0
    await until(outcome_of(one, ASKED), "HIT")


async def test_points_outlive_an_outage_of_the_store(
    gateways: tuple[Gateway, Gateway], server: Server, redis: RedisServer
) -> None:
    """While the store is not heard, what is found cannot be fetched: no reason to forget it."""
    if server is redis:
        pytest.skip("then the index is gone as well")
    one, two = gateways
    assert (await one.ask(STORED)).status == 200
    await until(outcome_of(two, ASKED), "HIT")
    redis.pause()
    await until(outcome_of(two, ASKED), "MISS")
    for _ in range(3):
        assert await outcome_of(two, ASKED)() == "MISS"
    redis.resume()
    await until(outcome_of(two, ASKED), "HIT")
    assert await points_in(server, redis)() == 1
