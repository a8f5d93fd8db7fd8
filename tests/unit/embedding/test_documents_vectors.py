"""Vectors of chunks: too long ones, and those that the embedding cache has."""

from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from support.documents import Ignored

from stepwell.core.vectors import Embeddings, Unfit
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.documents.cached import CachedChunks
from stepwell.embedding.documents.vectors import with_parts
from stepwell.testing.documents_contract import DIMENSIONS, vector_of

WINDOW = 40


class ShortSighted:
    """An `Embedder` that reads 40 characters, and says what it was asked."""

    model_id = "short"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        self.asked += texts
        vectors = np.stack([vector_of(text) for text in texts])
        return Embeddings(vectors, tuple(map(judge, texts)))

    async def aclose(self) -> None:
        """Do nothing."""


def judge(text: str) -> Unfit | None:
    if not text.strip():
        return Unfit.EMPTY
    return Unfit.OVER_WINDOW if len(text) > WINDOW else None


@pytest.fixture
async def cache() -> AsyncIterator[EmbeddingCache]:
    cache = EmbeddingCache(Ignored())
    yield cache
    await cache.aclose()


async def test_a_vector_is_computed_once(cache: EmbeddingCache) -> None:
    """And said to be known the next time; what is forgotten is computed again."""
    embedder = ShortSighted()
    chunks = CachedChunks(embedder, cache)
    assert (await chunks.embed(["one", "two"])).known == 0
    again = await chunks.embed(["two", "three"])
    assert again.known == 1
    assert embedder.asked == ["one", "two", "three"]
    np.testing.assert_array_equal(again.vectors[0], vector_of("two"))
    await chunks.forget(["two"])
    assert (await chunks.embed(["two", "three"])).known == 1


async def test_a_text_that_is_too_long_gets_the_mean_of_its_parts(cache: EmbeddingCache) -> None:
    """Parted at a blank; of those that are still too long, the parts again."""
    embedder = ShortSighted()
    chunks = CachedChunks(embedder, cache)
    long = "a" * 30 + " " + "b" * 30
    (vector,) = (await chunks.embed([long])).vectors
    mean = vector_of("a" * 30) + vector_of(" " + "b" * 30)
    assert vector is not None
    np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
    assert (await chunks.embed([long])).known == 1
    await chunks.forget([*with_parts([long])])
    embedder.asked.clear()
    assert (await chunks.embed([long])).known == 0
    assert len(embedder.asked) == 3


async def test_a_text_far_too_long_has_no_vector(cache: EmbeddingCache) -> None:
    """Nor have blanks; others of the call have."""
    chunks = CachedChunks(ShortSighted(), cache)
    none, blank, some = (await chunks.embed(["x" * 1_000, " ", "one"])).vectors
    assert none is None
    assert blank is None
    assert some is not None
