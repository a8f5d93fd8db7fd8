"""Embedding caches of passages and of questions, for callers in any thread and on any loop."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypedDict

from stepwell.client.embedding import EmbeddingCache
from stepwell.client.portal import Portal

Row = list[float]


class Kept(TypedDict, total=False):
    """Where vectors are kept, and of what; see `EmbeddingCache`."""

    revision: str
    """To be changed when the model changes under its name."""
    data_dir: Path | str | None
    """Where vectors are kept, shared with other processes."""
    redis: str | None
    """URL of a Redis or Valkey in front of the others."""
    postgres: str | None
    """URL of a PostgreSQL that keeps all vectors, in place of ``data_dir``."""


def describe_caches(
    model: str,
    embed_documents: Callable[[list[str]], list[Row]],
    embed_query: Callable[[str], Row],
    kept: Kept,
) -> tuple[EmbeddingCache, EmbeddingCache]:
    """Return caches of passages and of questions over functions that block, called in threads.

    Raises:
        ConfigError: Something cannot be used.
    """

    async def documents(texts: list[str]) -> list[Row]:
        return await asyncio.to_thread(embed_documents, texts)

    async def queries(texts: list[str]) -> list[Row]:
        return await asyncio.to_thread(lambda: [embed_query(text) for text in texts])

    return (
        EmbeddingCache(documents, model=model, **kept),
        EmbeddingCache(queries, model=f"{model} of queries", **kept),
    )


class PairedCaches:
    """Two embedding caches, or one in both roles, open on an event loop of their own.

    Many models embed questions otherwise than the passages they are compared with; such vectors
    must never be taken for each other.
    """

    def __init__(self, documents: EmbeddingCache, queries: EmbeddingCache | None) -> None:
        """Enter both.

        Args:
            documents: Of passages. Not entered yet.
            queries: Of questions; ``None``: they are embedded as passages are.

        Raises:
            ConfigError, StoreUnavailable: As entering them.
        """
        self._documents = documents
        self._queries = documents if queries is None else queries
        self._portal = Portal()
        try:
            self._opened = self._portal.call(_enter({self._documents, self._queries}))
        except BaseException:
            self._portal.close()
            raise

    def documents(self, texts: Sequence[str]) -> "Future[list[Row]]":
        """Begin to embed passages. Raises, later, as `EmbeddingCache.embed`."""
        return self._portal.start(_rows(self._documents, texts))

    def query(self, text: str) -> "Future[Row]":
        """Begin to embed a question; as `documents`."""
        return self._portal.start(_row(self._queries, text))

    def close(self) -> None:
        """Write what is pending and close the stores. May be called twice."""
        if not self._portal.closed:
            self._portal.call(self._opened.aclose())
            self._portal.close()


async def _enter(caches: Iterable[EmbeddingCache]) -> AsyncExitStack:
    """Enter all, or none."""
    async with AsyncExitStack() as stack:
        for cache in caches:
            await stack.enter_async_context(cache)
        return stack.pop_all()


async def _rows(cache: EmbeddingCache, texts: Sequence[str]) -> list[Row]:
    rows: list[Row] = (await cache.embed(texts)).tolist()
    return rows


async def _row(cache: EmbeddingCache, text: str) -> Row:
    [row] = await _rows(cache, [text])
    return row
