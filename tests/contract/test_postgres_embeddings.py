"""The laws of places where vectors stand, on a real PostgreSQL."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from support.embedding_stores import open_postgres_embeddings
from support.postgres_server import PostgresServer, postgres_server

from stepwell.stores.postgres.embeddings.store import PostgresEmbeddings
from stepwell.testing.embedding_contract import check_claims, check_full_store


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def test_postgres_embeddings(postgres: PostgresServer) -> None:
    """It agrees with dicts."""
    numbers = itertools.count()
    check_full_store(
        lambda: open_postgres_embeddings(postgres.url, f"store{next(numbers)}"), max_examples=15
    )


def test_postgres_claims(postgres: PostgresServer) -> None:
    """Two processes never hold the same claim."""
    numbers = itertools.count()

    async def open_twice() -> tuple[PostgresEmbeddings, PostgresEmbeddings]:
        prefix = f"claims{next(numbers)}"
        return await asyncio.gather(
            open_postgres_embeddings(postgres.url, prefix),
            open_postgres_embeddings(postgres.url, prefix),
        )

    check_claims(open_twice, max_examples=10)
