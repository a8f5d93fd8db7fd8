"""The laws of places where vectors stand, for each of the house."""

from stepwell.testing.clock import HandClock
from stepwell.testing.embedding_contract import check_full_store
from stepwell.testing.embedding_stores import MemoryEmbeddings


def test_memory() -> None:
    """The fake that other tests use keeps the laws, too."""

    async def make() -> MemoryEmbeddings:
        return MemoryEmbeddings(HandClock())

    check_full_store(make)
