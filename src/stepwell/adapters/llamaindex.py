"""For LlamaIndex: embeddings that are computed once. Needs the extra ``llamaindex``."""

import asyncio
from typing import Self, Unpack

from llama_index.core.base.embeddings.base import BaseEmbedding
from pydantic import PrivateAttr

from stepwell.adapters.paired_caches import Kept, PairedCaches, describe_caches
from stepwell.client.embedding import EmbeddingCache

_BATCH = 2_048
"""Texts handed over at once, the most that LlamaIndex allows. What is not known is sent on in
calls as large as the model server takes."""


class StepwellEmbedding(BaseEmbedding):
    """Implements LlamaIndex's embeddings over Stepwell's embedding cache.

    In place of ``embeddings_cache``, whose key is the text alone: here the model is in the key,
    equal texts are embedded once, values are binary. Safe in threads and on any event loop: the
    caches are on a loop of their own. Its ``model_name`` is the version of the passages' vectors,
    so that an ingestion pipeline, too, sees that the model is another one.
    """

    _caches: PairedCaches = PrivateAttr()

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
        super().__init__(model_name=documents.kind.version, embed_batch_size=_BATCH)
        self._caches = PairedCaches(documents, queries)

    @classmethod
    def class_name(cls) -> str:
        """Return what LlamaIndex calls this."""
        return "StepwellEmbedding"

    @classmethod
    def over(cls, underlying: BaseEmbedding, **kept: Unpack[Kept]) -> Self:
        """Return embeddings that ask ``underlying`` for what is not known.

        Its synchronous methods are called, in threads. Its ``model_name`` must name its model.

        Args:
            underlying: Any embeddings of LlamaIndex's.
            **kept: ``revision``, ``data_dir``, ``redis``, ``postgres``, as of `EmbeddingCache`.
                Change ``revision`` with whatever of ``underlying`` changes a vector.

        Raises:
            ConfigError: Something cannot be used.
            StoreUnavailable: The data directory cannot be used.
        """
        embed_documents = underlying.get_text_embedding_batch
        embed_query = underlying.get_query_embedding
        return cls(*describe_caches(underlying.model_name, embed_documents, embed_query, kept))

    def close(self) -> None:
        """Write what is pending and close the stores. May be called twice."""
        self._caches.close()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._caches.query(query).result()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.wrap_future(self._caches.query(query))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._caches.documents([text]).result()[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await asyncio.wrap_future(self._caches.documents([text])))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._caches.documents(texts).result()

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.wrap_future(self._caches.documents(texts))
