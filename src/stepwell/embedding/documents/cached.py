"""Vectors of chunks by way of the embedding cache."""

from collections.abc import Sequence

from stepwell.core.embedding import ContentDigest
from stepwell.core.embedding_events import Source
from stepwell.core.vectors import Embedder, Unfit, Vector
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.cached_embedder import EmbedderProvider, embedder_kind
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.provider import Input, NoVector
from stepwell.embedding.documents.vectors import ChunkVectors, embed_parts, with_parts


class CachedChunks:
    """Implements `ChunkEmbedder` by a cache, and an embedder for what that has not.

    Owns neither. Everybody who uses the cache shares these vectors.
    """

    def __init__(self, embedder: Embedder, cache: EmbeddingCache) -> None:
        """Compute by ``embedder``."""
        self.kind = embedder_kind(embedder)
        self.dimensions = embedder.dimensions
        self._provider = EmbedderProvider(embedder)
        self._cache = cache

    async def embed(self, texts: Sequence[str]) -> ChunkVectors:
        """As `ChunkEmbedder.embed`."""
        computed: set[str] = set()

        async def rows(some: Sequence[str]) -> Sequence[Vector | Unfit]:
            digests = [text_digest(text) for text in some]
            wanted: dict[ContentDigest, Input] = dict(zip(digests, some, strict=True))
            found = await self._cache.settle(self.kind, wanted, self._provider)
            made: list[Vector | Unfit] = []
            for text, digest in zip(some, digests, strict=True):
                outcome = found[digest]
                if isinstance(outcome, NoVector):
                    made.append(outcome.why)
                    continue
                if outcome.source is Source.ORIGIN:
                    computed.add(text)
                made.append(outcome.embedding.vector)
            return made

        vectors = await embed_parts(rows, texts)
        known = sum(
            vector is not None and computed.isdisjoint(with_parts([text]))
            for text, vector in zip(texts, vectors, strict=True)
        )
        return ChunkVectors(vectors, known)

    async def forget(self, texts: Sequence[str]) -> None:
        """As `ChunkEmbedder.forget`."""
        await self._cache.delete(self.kind, texts)
