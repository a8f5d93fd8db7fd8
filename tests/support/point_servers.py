"""Servers that search points, opened for tests: patiently, unless it is said otherwise."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from stepwell.core.clock import SystemClock
from stepwell.core.points import PointServer
from stepwell.stores.breaker import State
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Address, Dialer
from stepwell.stores.postgres.points import SESSION, PostgresPoints
from stepwell.stores.postgres.schema import Schema
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.points import PointLayout, RedisPoints
from stepwell.stores.redis.servers import open_servers
from stepwell.stores.redis.tls import Tls
from support.redis_client import Changes
from support.redis_servers import PATIENCE_SECONDS


@dataclass(frozen=True)
class Opened:
    """Points, and what was told of their server."""

    points: PointServer
    changes: Changes


async def open_postgres_points(
    url: str,
    prefix: str = "stepwell",
    dimensions: int = 16,
    *,
    model_id: str = "model",
    timeout_seconds: float = PATIENCE_SECONDS,
) -> Opened:
    """Open the points of one embedder on PostgreSQL."""
    schema, changes = Schema(prefix, model_id, dimensions), Changes()

    def database(connections: int, seconds: float, on_change: Callable[[State], None]) -> Database:
        dialer = Dialer(Address(url), seconds, schema.prepare, SESSION)
        return Database(dialer, connections=connections, on_change=on_change)

    searching = database(2, timeout_seconds, changes)
    points = PostgresPoints(schema, searching, database(1, PATIENCE_SECONDS, lambda _: None))
    await points.start()
    return Opened(points, changes)


async def open_redis_points(
    url: str,
    prefix: str = "stepwell",
    dimensions: int = 16,
    *,
    model_id: str = "model",
    timeout_seconds: float = PATIENCE_SECONDS,
) -> Opened:
    """Open the points of one embedder on a server of Redis's kind."""
    changes = Changes()
    servers = await open_servers(
        parse_address(url),
        credentials=Credentials(),
        tls=Tls(),
        on_change=changes,
        timeout_seconds=timeout_seconds,
    )
    layout = PointLayout(prefix, model_id, dimensions)
    points = RedisPoints(servers, layout, clock=SystemClock())
    await points.start()
    return Opened(points, changes)


async def until(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Return when ``look()`` returns what is wanted; fail showing what it returned instead."""
    end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while (seen := await look()) != wanted:
        assert asyncio.get_running_loop().time() < end, seen
        await asyncio.sleep(0.02)
