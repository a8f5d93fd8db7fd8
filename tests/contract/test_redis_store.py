"""The laws of stores and feeds, on real servers."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator

import pytest
from contract.test_store import Ignored
from support.redis_cluster import RedisCluster
from support.redis_servers import PATIENCE_SECONDS, REDIS, VALKEY, redis_servers

from stepwell.core.clock import SystemClock
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.servers import open_servers
from stepwell.stores.redis.store import RedisStore
from stepwell.stores.redis.tls import Tls
from stepwell.testing.store_contract import check_feed, check_store

OpenStore = Callable[[str], Awaitable[RedisStore]]


@pytest.fixture(scope="module", params=["valkey", "redis", "cluster"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a server is, or a cluster."""
    if request.param == "redis" and REDIS is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    with redis_servers() as launcher:
        if request.param == "cluster":
            yield RedisCluster(launcher).url
        else:
            program = VALKEY if request.param == "valkey" else str(REDIS)
            yield launcher.start(program=program).url


async def open_store(url: str, prefix: str) -> RedisStore:
    servers = await open_servers(
        parse_address(url),
        credentials=Credentials(),
        tls=Tls(),
        on_change=lambda _: None,
        timeout_seconds=PATIENCE_SECONDS,
        connect_timeout_seconds=PATIENCE_SECONDS,
    )
    return await RedisStore.open(
        servers,
        prefix=prefix,
        clock=SystemClock(),
        events=Ignored(),
        max_lag_seconds=PATIENCE_SECONDS,
    )


def test_redis_store(url: str) -> None:
    """It agrees with a dict."""
    numbers = itertools.count()
    check_store(lambda: open_store(url, f"store{next(numbers)}"), max_examples=25)


def test_redis_feed(url: str) -> None:
    """One handle follows another."""
    numbers = itertools.count()

    async def open_twice() -> tuple[RedisStore, RedisStore]:
        prefix = f"feed{next(numbers)}"
        return await asyncio.gather(open_store(url, prefix), open_store(url, prefix))

    check_feed(open_twice, max_examples=15, within_seconds=PATIENCE_SECONDS)
