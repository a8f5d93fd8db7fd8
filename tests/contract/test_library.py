"""The laws of libraries of documents, for every library of the house."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documents import Ignored, open_postgres_library
from support.postgres_server import PostgresServer, postgres_server

from stepwell.stores.disk.documents.store import DiskLibrary
from stepwell.testing.clock import HandClock
from stepwell.testing.documents_contract import check_library


def test_disk_library(tmp_path: Path) -> None:
    """The library in a file agrees with dictionaries."""
    numbers = itertools.count()

    async def make() -> DiskLibrary:
        directory = tmp_path / str(next(numbers))
        return await DiskLibrary.open(directory, clock=HandClock(), events=Ignored())

    check_library(make, max_examples=20)


def test_disk_library_that_keeps_no_vectors(tmp_path: Path) -> None:
    """What does not fit into memory is read for each search; the same comes out."""
    numbers = itertools.count()

    async def make() -> DiskLibrary:
        directory = tmp_path / str(next(numbers))
        return await DiskLibrary.open(directory, clock=HandClock(), events=Ignored(), max_bytes=100)

    check_library(make, max_examples=6)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def test_postgres_library(postgres: PostgresServer) -> None:
    """The library on PostgreSQL agrees with dictionaries."""
    numbers = itertools.count()
    check_library(lambda: open_postgres_library(postgres.url, f"t{next(numbers)}"), max_examples=20)
    assert postgres.query("SELECT count(*) FROM pg_tables WHERE tablename LIKE 't%_chunks_%'") == (
        postgres.query("SELECT count(*) FROM pg_tables WHERE tablename LIKE 't%_passages_%'")
    )
