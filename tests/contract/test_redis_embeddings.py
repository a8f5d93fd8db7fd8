"""The laws of places where vectors stand, on real servers of Redis's kind."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from support.embedding_stores import open_redis_embeddings
from support.redis_cluster import RedisCluster
from support.redis_servers import REDIS, VALKEY, redis_servers

from stepwell.stores.redis.embeddings import RedisEmbeddings
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


def test_redis_embeddings(url: str) -> None:
    """It agrees with a dict."""
    numbers = itertools.count()
    check_part_store(lambda: open_redis_embeddings(url, f"store{next(numbers)}:"), max_examples=25)


def test_redis_claims(url: str) -> None:
    """Two processes never hold the same claim."""
    numbers = itertools.count()

    async def open_twice() -> tuple[RedisEmbeddings, RedisEmbeddings]:
        prefix = f"claims{next(numbers)}:"
        return await asyncio.gather(
            open_redis_embeddings(url, prefix), open_redis_embeddings(url, prefix)
        )

    check_claims(open_twice, max_examples=15)
