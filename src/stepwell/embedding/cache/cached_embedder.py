"""An embedder whose vectors are kept."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np

from stepwell.core.embedding import ContentDigest, VectorKind
from stepwell.core.errors import EmbeddingTimeout
from stepwell.core.names import Namespace
from stepwell.core.vectors import Embedder, Embeddings, Unfit
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.pace import Limits, Pace
from stepwell.embedding.cache.provider import Input, NoVector, Reply
from stepwell.embedding.text import readable

LIMITS: Final = Limits(max_texts=64, max_calls=2, max_retries=0)


class EmbedderProvider:
    """An embedder as a `Provider` of texts."""

    def __init__(self, embedder: Embedder, limits: Limits = LIMITS) -> None:
        """Ask ``embedder`` within ``limits``."""
        self.pace = Pace(limits)
        self._embedder = embedder

    async def embed(self, inputs: Sequence[Input]) -> Reply:
        """Ask once.

        Raises:
            EmbeddingError: As the embedder raises it.
            TypeError: Token arrays are given.
        """
        texts = [given for given in inputs if isinstance(given, str)]
        if len(texts) != len(inputs):
            raise TypeError("an embedder takes texts, no token arrays")
        made = await self._embedder.embed(texts)
        rows = zip(made.vectors, made.unfit, strict=True)
        return Reply([vector if unfit is None else unfit for vector, unfit in rows])


def embedder_kind(embedder: Embedder) -> VectorKind:
    """Return the kind of an embedder's vectors: all that changes them is in its id."""
    return VectorKind("embedder", embedder.model_id, dimensions=embedder.dimensions)


class CachedEmbedder:
    """Implements `stepwell.core.vectors.Embedder` over another one and a cache.

    Same id, same bits, same texts that are unfit; those are judged anew each time. Does not own the
    cache. For one event loop.
    """

    def __init__(
        self,
        embedder: Embedder,
        cache: EmbeddingCache,
        *,
        owner: Namespace | None = None,
        limits: Limits = LIMITS,
        budget_seconds: float | None = None,
    ) -> None:
        """Ask ``cache``, and ``embedder`` for what it has not.

        Args:
            embedder: Closed along with this.
            cache: May be shared with others.
            owner: Whose vectors these are; ``None``: everybody's.
            limits: Of the calls to the embedder.
            budget_seconds: How long `embed` may take; ``None``: as long as the embedder takes.
        """
        self.model_id = embedder.model_id
        self.dimensions = embedder.dimensions
        self._embedder = embedder
        self._cache = cache
        self._owner = owner
        self._kind = embedder_kind(embedder)
        self._provider = EmbedderProvider(embedder, limits)
        self._budget_seconds = budget_seconds

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``.

        Raises:
            EmbeddingTimeout: They were not there within the budget.
            EmbeddingError: As the embedder raises it.
        """
        known = [readable(text) for text in texts]
        digests = [text_digest(text, self._owner) for text in known]
        wanted: dict[ContentDigest, Input] = dict(zip(digests, known, strict=True))
        try:
            async with asyncio.timeout(self._budget_seconds):
                found = await self._cache.settle(self._kind, wanted, self._provider)
        except TimeoutError:
            raise EmbeddingTimeout(
                f"{len(wanted)} texts were not ready within {self._budget_seconds} s"
            ) from None
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        unfit: list[Unfit | None] = []
        for row, digest in zip(vectors, digests, strict=True):
            outcome = found[digest]
            if isinstance(outcome, NoVector):
                unfit.append(outcome.why)
            else:
                row[:] = outcome.embedding.vector
                unfit.append(None)
        return Embeddings(vectors, tuple(unfit))

    async def aclose(self) -> None:
        """Close the embedder."""
        await self._embedder.aclose()
