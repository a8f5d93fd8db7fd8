"""Servers that search points: filters, embedders, outages, who leads."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from integration.point_servers.conftest import Open
from support.point_servers import until
from support.points import make_id, make_near, make_point, make_vectors, texts
from support.postgres_server import PostgresServer
from support.redis_client import fail_until_open
from support.redis_servers import PATIENCE_SECONDS, RedisServer

from stepwell.core.errors import StoreUnavailable
from stepwell.core.points import Candidate, Point, PointServer

HERE = make_id("partition")
LATER = time.time() + 3_600
VECTORS = make_vectors(400)

Server = PostgresServer | RedisServer


def point(name: str, **facts: Any) -> Point:
    return make_point(name, **{"expires_at": LATER, **facts})


def search(points: PointServer, row: int = 0) -> Coroutine[Any, Any, list[Candidate]]:
    return points.search(HERE, VECTORS[row], 8, time.time())  # type: ignore[return-value]


async def found(points: PointServer) -> list[str] | None:
    """Return what is found near the first vector; ``None`` while the server fails."""
    try:
        return texts(await search(points))
    except StoreUnavailable:
        return None


async def test_embedders_are_never_mixed(open_points: Open) -> None:
    """Another model, or another width, is another index; of the same, all gateways have one."""
    one = (await open_points()).points
    await one.add(point("mine"), VECTORS[0])
    assert await found((await open_points()).points) == ["mine"]
    other = (await open_points(model_id="model@2")).points
    assert await found(other) == []
    assert await other.expiries([point("mine").key]) == {}
    wide = (await open_points(dimensions=32)).points
    assert await wide.search(HERE, make_vectors(1, dimensions=32)[0], 8, time.time()) == []
    apart = (await open_points(prefix="another")).points
    assert await found(apart) == []


async def test_a_small_partition_among_many_nearer_points(open_points: Open) -> None:
    """All of it is found, in order, though hundreds of other points are nearer."""
    points = (await open_points()).points
    near = make_near(VECTORS[:1].repeat(390, axis=0), 0.99)
    for number, vector in enumerate(near):
        await points.add(point(f"other {number}", partition="other"), vector)
    for tenths in range(1, 9):
        far = make_near(VECTORS[:1], tenths / 10, seed=tenths)[0]
        await points.add(point(f"mine {tenths}"), far)
    assert texts(await search(points)) == [f"mine {tenths}" for tenths in range(8, 0, -1)]


async def test_what_has_expired_goes(open_points: Open) -> None:
    """By itself, or when the one that leads says so."""
    points = (await open_points()).points
    now = time.time()
    await points.add(point("soon", expires_at=now + 0.05), VECTORS[0])
    await points.add(point("later"), VECTORS[1])
    keys = [point("soon").key, point("later").key]

    async def held() -> list[bytes]:
        await points.remove_expired(now + 1)
        return list(await points.expiries(keys))

    await until(held, [point("later").key])


async def test_one_of_all_leads(open_points: Open) -> None:
    """Until it resigns, or does not ask again in time."""
    one, two = (await open_points()).points, (await open_points()).points
    assert await one.lead(60)
    assert await one.lead(60)
    assert not await two.lead(60)
    await two.resign()
    assert not await two.lead(60)
    await one.resign()
    assert await two.lead(0.05)
    await until(lambda: one.lead(60), wanted=True)
    other = (await open_points(model_id="model@2")).points
    assert await other.lead(60)


@pytest.mark.parametrize("how", ["pause", "kill"])
async def test_a_server_that_is_silent_or_gone(open_points: Open, server: Server, how: str) -> None:
    """A few searches wait their time, then none does; when it is back, it is asked again."""
    opened = await open_points(timeout_seconds=0.2)
    points = opened.points
    assert points.trouble == ""
    getattr(server, how)()
    await fail_until_open(opened.changes, lambda: search(points))
    assert points.trouble
    if how == "pause":
        server.resume()
    else:
        server.start()
    await opened.changes.closed()
    await until(lambda: _leads(points), wanted=True)
    assert points.trouble == ""
    await points.add(point("new"), VECTORS[0])
    assert await found(points) == ["new"]


async def test_a_server_that_comes_later(open_points: Open, server: Server) -> None:
    """It is no error that it is not there; what it needs is made when it is."""
    server.kill()
    opened = await open_points()
    assert opened.points.trouble
    with pytest.raises(StoreUnavailable):
        await search(opened.points)
    server.start()
    await opened.changes.closed()
    await until(lambda: _leads(opened.points), wanted=True)
    await opened.points.add(point("new"), VECTORS[0])
    assert await found(opened.points) == ["new"]


async def _leads(points: PointServer) -> bool:
    try:
        return await points.lead(60)
    except StoreUnavailable:
        return False


async def test_callers_who_leave_spoil_nothing(open_points: Open) -> None:
    """Cancelled searches cost nobody else theirs."""
    opened = await open_points()
    await opened.points.add(point("here"), VECTORS[0])
    for _ in range(5):
        searches = [asyncio.create_task(search(opened.points)) for _ in range(20)]
        await asyncio.sleep(0)
        for one in searches[::2]:
            one.cancel()
        async with asyncio.timeout(PATIENCE_SECONDS):
            ended = await asyncio.gather(*searches, return_exceptions=True)
        assert [isinstance(one, list) for one in ended[1::2]] == [True] * 10
    assert opened.changes.seen == []
