"""LangChain: embeddings that are computed once."""

import asyncio
from typing import Self, Unpack

from langchain_core.embeddings import Embeddings

from stepwell.adapters.paired_caches import Kept, PairedCaches, describe_caches
from stepwell.client.embedding import EmbeddingCache


class StepwellEmbeddings(Embeddings):
    """Implements LangChain's embeddings over Stepwell's embedding cache.

    In place of ``CacheBackedEmbeddings``: the model is in the key, equal texts of a batch and of
    callers at the same time are embedded once, questions are kept too, values are binary. Safe in
    threads and on any event loop: the caches are on a loop of their own.
    """

    def __init__(self, documents: EmbeddingCache, queries: EmbeddingCache | None = None) -> None:
        """Open the caches.

        Args:
            documents: Of passages; described, not entered.
            queries: Of questions, where the model embeds them otherwise, with another prefix, say;
                by default they are embedded as passages are.

        Raises:
            ConfigError: Something cannot be used.
            StoreUnavailable: The data directory cannot be used.
        """
        self._caches = PairedCaches(documents, queries)

    @classmethod
    def over(cls, underlying: Embeddings, *, model: str, **kept: Unpack[Kept]) -> Self:
        """Return embeddings that ask ``underlying`` for what is not known.

        Its synchronous methods are called, in threads.

        Args:
            underlying: Any embeddings of LangChain's.
            model: Names its model, and whatever else of it changes a vector.
            **kept: ``revision``, ``data_dir``, ``redis``, ``postgres``, as of `EmbeddingCache`.

        Raises:
            ConfigError: Something cannot be used.
            StoreUnavailable: The data directory cannot be used.
        """
        embed_documents, embed_query = underlying.embed_documents, underlying.embed_query
        return cls(*describe_caches(model, embed_documents, embed_query, kept))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of passages, in their order.

        Raises:
            Exception: What embedding those that are not known raised.
        """
        return self._caches.documents(texts).result()

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question; raises as `embed_documents`."""
        return self._caches.query(text).result()

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of passages; as `embed_documents`."""
        return await asyncio.wrap_future(self._caches.documents(texts))

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question; as `embed_query`."""
        return await asyncio.wrap_future(self._caches.query(text))

    def close(self) -> None:
        """Write what is pending and close the stores. May be called twice."""
        self._caches.close()
