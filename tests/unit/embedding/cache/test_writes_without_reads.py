"""What is computed anew, without a look at what there is."""

from support.embedding_provider import KIND, FakeProvider, Heard

from stepwell.core.clock import SystemClock
from stepwell.core.embedding import Deletions
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.tiers import Stores
from stepwell.testing.embedding_stores import MemoryEmbeddings


async def test_is_kept_by_a_process_that_has_never_looked() -> None:
    """Though there were deletions, which it knows nothing of until it asks."""
    full = MemoryEmbeddings(SystemClock())
    for _ in range(3):
        await full.delete(KIND.version, [])
    cache = EmbeddingCache(Heard(), stores=Stores(full=full))
    await cache.get_many(KIND, ["a", "b"], FakeProvider(), reads=False)
    await cache.flush()
    (figures,) = await full.versions()
    assert figures.vectors == 2
    assert (await full.get(KIND.version, [])).deletions == Deletions(3)
    await cache.aclose()
