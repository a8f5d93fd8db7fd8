"""Redis's own: servers without search, and an index that was lost."""

import time

import pytest
from support.point_servers import open_redis_points, until
from support.points import make_id, make_point, make_vectors, texts
from support.redis_servers import redis_servers, search_module

from stepwell.assembly.redis import open_redis_points as open_by_settings
from stepwell.assembly.settings import Redis
from stepwell.core.clock import SystemClock
from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.semantic.index.served import LEASE_SECONDS


async def test_a_server_without_search() -> None:
    """It is said at the start, or, if it was not there then, when it comes."""
    with redis_servers() as launcher:
        server = launcher.start()
        with pytest.raises(ConfigError, match=r"no vector search \(FT.CREATE\); use Redis 8"):
            await open_redis_points(server.url)
        server.kill()
        opened = await open_redis_points(server.url)
        server.start()
        await opened.changes.closed()
        with pytest.raises(StoreUnavailable, match="no vector search"):
            await opened.points.lead(LEASE_SECONDS)
        assert "no vector search" in opened.points.trouble
        await opened.points.aclose()


async def test_an_emptied_server() -> None:
    """The index goes with all else, and is made anew by whoever asks to lead."""
    with redis_servers() as launcher:
        server = launcher.start(f"loadmodule {search_module()}")
        opened = await open_redis_points(server.url)
        points, vector = opened.points, make_vectors(1)[0]
        server.ask("FLUSHALL")
        with pytest.raises(StoreUnavailable):
            await points.search(make_id("partition"), vector, 8, time.time())
        assert await points.lead(LEASE_SECONDS)
        await points.add(make_point(expires_at=time.time() + 60), vector)

        async def found() -> list[str]:
            return texts(await points.search(make_id("partition"), vector, 8, time.time()))

        await until(found, ["point"])
        await points.aclose()


async def test_a_cluster_is_refused() -> None:
    """Its nodes would each search their own."""

    class Wide:
        model_id, dimensions = "model", 16

    with pytest.raises(ConfigError, match="of a cluster; allowed there: 'own' or 'postgres'"):
        await open_by_settings(
            Redis(),
            "redis+cluster://127.0.0.1:1",
            Wide(),  # type: ignore[arg-type]
            search_seconds=1.0,
            clock=SystemClock(),
            on_change=lambda _: None,
        )
