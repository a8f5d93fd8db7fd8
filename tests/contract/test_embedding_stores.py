"""The laws of places where vectors stand, for each of the house."""

import itertools
from pathlib import Path

from contract.test_store import Ignored

from stepwell.stores.disk.embeddings.store import DiskEmbeddings
from stepwell.testing.clock import HandClock
from stepwell.testing.embedding_contract import check_claims, check_full_store
from stepwell.testing.embedding_stores import MemoryEmbeddings


def test_memory() -> None:
    """The fake that other tests use keeps the laws, too."""

    async def make() -> MemoryEmbeddings:
        return MemoryEmbeddings(HandClock())

    check_full_store(make)


async def open_disk(directory: Path) -> DiskEmbeddings:
    """Open a disk store that is large enough for the checks."""
    return await DiskEmbeddings.open(
        directory, max_bytes=2**20, clock=HandClock(), events=Ignored(), timeout_seconds=30.0
    )


def test_disk(tmp_path: Path) -> None:
    """The disk store agrees with dicts."""
    numbers = itertools.count()
    check_full_store(lambda: open_disk(tmp_path / str(next(numbers))), max_examples=25)


def test_disk_claims(tmp_path: Path) -> None:
    """Two processes on one file never hold the same claim."""
    numbers = itertools.count()

    async def open_twice() -> tuple[DiskEmbeddings, DiskEmbeddings]:
        directory = tmp_path / str(next(numbers))
        return await open_disk(directory), await open_disk(directory)

    check_claims(open_twice, max_examples=20)
