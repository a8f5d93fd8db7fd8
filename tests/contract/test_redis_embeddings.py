"""The laws of places where vectors stand, on real servers of Redis's kind."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from support.redis_cluster import RedisCluster
from support.redis_servers import PATIENCE_SECONDS, REDIS, VALKEY, redis_servers

from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.embeddings import RedisEmbeddings
from stepwell.stores.redis.servers import open_servers
from stepwell.stores.redis.tls import Tls
from stepwell.testing.embedding_contract import check_claims, check_part_store


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


async def open_store(url: str, prefix: str) -> RedisEmbeddings:
    servers = await open_servers(
        parse_address(url),
        credentials=Credentials(),
        tls=Tls(),
        on_change=lambda _: None,
        timeout_seconds=PATIENCE_SECONDS,
        connect_timeout_seconds=PATIENCE_SECONDS,
    )
    return RedisEmbeddings(servers, prefix=prefix, ttl_seconds=PATIENCE_SECONDS * 100)


def test_redis_embeddings(url: str) -> None:
    """It agrees with a dict."""
    numbers = itertools.count()
    check_part_store(lambda: open_store(url, f"store{next(numbers)}:"), max_examples=25)


def test_redis_claims(url: str) -> None:
    """Two processes never hold the same claim."""
    numbers = itertools.count()

    async def open_twice() -> tuple[RedisEmbeddings, RedisEmbeddings]:
        prefix = f"claims{next(numbers)}:"
        return await asyncio.gather(open_store(url, prefix), open_store(url, prefix))

    check_claims(open_twice, max_examples=15)
