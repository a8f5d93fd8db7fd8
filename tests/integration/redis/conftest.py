"""Servers and clients for the tests of this directory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
import uvloop
from support.redis_client import Changes, OpenServers
from support.redis_servers import PATIENCE_SECONDS, REDIS, VALKEY, RedisServer, redis_servers
from support.redis_servers import Servers as Launcher

from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.servers import Servers, open_servers
from stepwell.stores.redis.tls import Tls


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each test on both loops; a slow one on that which the gateway has."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    if item.get_closest_marker("slow") is None:
        loops["asyncio"] = asyncio.SelectorEventLoop
    return loops


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    """Starts servers; they end with the test."""
    with redis_servers() as launcher:
        yield launcher


@pytest.fixture(params=["valkey", "redis"])
def program(request: pytest.FixtureRequest) -> str:
    """Both servers."""
    if request.param == "valkey":
        return VALKEY
    return redis_program()


def redis_program() -> str:
    """Return Redis, or skip the test."""
    if REDIS is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    return REDIS


@pytest.fixture
def server(launcher: Launcher) -> RedisServer:
    """A server without a password."""
    return launcher.start()


@pytest.fixture
async def changes() -> Changes:
    return Changes()


@pytest.fixture
async def open_at(changes: Changes) -> AsyncIterator[OpenServers]:
    """Open servers at a URL, patiently unless it is said otherwise; they are closed afterwards."""
    opened: list[Servers] = []

    async def open_at(url: str, **settings: Any) -> Servers:
        chosen = {
            "credentials": Credentials(),
            "tls": Tls(),
            "on_change": changes,
            "timeout_seconds": PATIENCE_SECONDS,
            "connect_timeout_seconds": PATIENCE_SECONDS,
        }
        servers = await open_servers(parse_address(url), **{**chosen, **settings})
        opened.append(servers)
        return servers

    yield open_at
    for servers in opened:
        await servers.aclose()
        await servers.aclose()
