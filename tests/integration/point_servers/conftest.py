"""Servers that search points, and how to open them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
import uvloop
from support.point_servers import Opened, open_postgres_points, open_redis_points
from support.points import make_id
from support.postgres_server import PostgresServer, postgres_server
from support.redis_servers import RedisServer, redis_servers, search_module

Open = Callable[..., Awaitable[Opened]]
"""Takes settings by name; what is opened is closed afterwards."""


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each test on the loop that the gateway has."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module", params=["postgres", "redis"])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer | RedisServer]:
    """Either of them, the same for all tests of a module; who stops it starts it again."""
    with ExitStack() as stack:
        if request.param == "postgres":
            yield stack.enter_context(postgres_server())
        else:
            launcher = stack.enter_context(redis_servers())
            yield launcher.start(f"loadmodule {search_module()}")


@pytest.fixture
async def open_points(
    server: PostgresServer | RedisServer, request: pytest.FixtureRequest
) -> AsyncIterator[Open]:
    """Open the points on the server, of each test apart from others'."""
    opened: list[Opened] = []
    prefix = "t" + make_id(request.node.name).hex()[:16]

    async def open_points(**settings: Any) -> Opened:
        is_postgres = isinstance(server, PostgresServer)
        open_here = open_postgres_points if is_postgres else open_redis_points
        opened.append(await open_here(server.url, **{"prefix": prefix, **settings}))
        return opened[-1]

    yield open_points
    for one in opened:
        await one.points.aclose()
        await one.points.aclose()
