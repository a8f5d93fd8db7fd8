"""What `stepwell.Documents` is while it is entered. Needs numpy."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from stepwell.assembly.documents import (
    Sink,
    make_document_embedder,
    open_embedding_cache,
    open_library,
)
from stepwell.assembly.settings import Settings
from stepwell.core.clock import SystemClock
from stepwell.core.documents import CollectionState, EditionFigures, Library, Passage
from stepwell.core.errors import ConfigError, RequestError
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.documents.cached import CachedChunks
from stepwell.embedding.documents.forgetting import drop_collection
from stepwell.embedding.documents.sources import Read
from stepwell.embedding.documents.summary import Summary
from stepwell.embedding.documents.sync import Sync

MAX_NAME_CHARACTERS = 200
MAX_TOP = 1_000
"""Passages of a search."""

PATIENCE_SECONDS = 10.0
"""What a store of vectors may take over a call: it costs less than to embed again."""

Begin = Callable[[], Iterator[Read]]


class DocumentDesk:
    """A library that is open, and an embedder and a cache that are opened when they are needed."""

    def __init__(
        self, settings: Settings, data_dir: Path | None, library: Library, events: Sink
    ) -> None:
        """Take over ``library``; use `open`."""
        self._settings = settings
        self._data_dir = data_dir
        self._library = library
        self._events = events
        self._clock = SystemClock()
        self._stack = AsyncExitStack()
        self._stack.push_async_callback(library.aclose)
        self._cache: EmbeddingCache | None = None
        self._chunks: CachedChunks | None = None

    @classmethod
    async def open(cls, settings: Settings, data_dir: Path | None, events: Sink) -> Self:
        """Open the library. Raises as `stepwell.Documents` being entered."""
        library = await open_library(settings, data_dir, clock=SystemClock(), events=events)
        return cls(settings, data_dir, library, events)

    async def aclose(self) -> None:
        """Write what is pending and close everything."""
        await self._stack.aclose()

    async def sync(
        self,
        collection: str,
        begin: Begin,
        *,
        allow_empty: bool,
        on_progress: Callable[[Summary], None],
    ) -> Summary:
        """As `stepwell.Documents.sync`."""
        name = _checked(collection)
        chunks = await self._opened_chunks()
        run = Sync(self._library, chunks, clock=self._clock, on_progress=on_progress)
        return await run.run(name, begin, allow_empty=allow_empty)

    async def foresee(self, collection: str, begin: Begin) -> Summary:
        """As `stepwell.Documents.foresee`."""
        name = _checked(collection)
        run = Sync(self._library, await self._opened_chunks(), clock=self._clock)
        return await run.foresee(name, begin)

    async def search(self, collection: str, question: str, top: int) -> Sequence[Passage]:
        """As `stepwell.Documents.search`."""
        if not 1 <= top <= MAX_TOP:
            raise RequestError(f"top is {top}; allowed: 1 to {MAX_TOP}.", param="top")
        state = await self.collection(collection)
        if state.serving is None or state.recipe is None:
            return []
        chunks = await self._opened_chunks()
        if state.recipe.kind != chunks.kind:
            raise ConfigError(
                f"The collection {collection!r} was embedded by {state.recipe.kind.model!r}, and"
                f" the settings mean {chunks.kind.model!r}: use those it was made with, or sync it."
            )
        (vector,) = (await chunks.embed([question])).vectors
        if vector is None:
            raise RequestError("There are no words in the question that can be embedded.")
        return await self._library.nearest(state.serving, vector, top)

    async def collections(self) -> Sequence[CollectionState]:
        """As `stepwell.Documents.collections`."""
        return await self._library.collections()

    async def collection(self, name: str) -> CollectionState:
        """As `stepwell.Documents.collection`."""
        # Others have no name that could be looked for: a lone surrogate is in it, say.
        state = await self._library.collection(name) if name.isprintable() else None
        if state is None:
            known = ", ".join(state.name for state in await self.collections())
            raise ConfigError(f"There is no collection {name!r}; there are: {known or 'none'}.")
        return state

    async def figures(self, state: CollectionState) -> EditionFigures:
        """As `stepwell.Documents.figures`."""
        if state.serving is None:
            return EditionFigures(0, 0)
        return await self._library.figures(state.serving)

    async def rename(self, name: str, new: str) -> None:
        """As `stepwell.Documents.rename`."""
        state = await self.collection(name)
        if not await self._library.rename(state.collection, _checked(new)):
            raise ConfigError(f"There is a collection {new!r} already.")

    async def drop(self, name: str) -> int:
        """As `stepwell.Documents.drop`."""
        state = await self.collection(name)
        cache = await self._opened_cache()

        async def forget(texts: Sequence[str]) -> None:
            if state.recipe is not None:
                await cache.delete(state.recipe.kind, texts)

        return await drop_collection(self._library, state, forget)

    async def _opened_chunks(self) -> CachedChunks:
        if self._chunks is None:
            embedder = make_document_embedder(self._settings)
            self._stack.push_async_callback(embedder.aclose)  # After the cache, which may ask it.
            self._chunks = CachedChunks(embedder, await self._opened_cache())
        return self._chunks

    async def _opened_cache(self) -> EmbeddingCache:
        if self._cache is None:
            self._cache = await open_embedding_cache(
                self._settings,
                self._data_dir,
                clock=self._clock,
                events=self._events,
                patience_seconds=PATIENCE_SECONDS,
            )
            self._stack.push_async_callback(self._cache.aclose)
        return self._cache


def _checked(name: str) -> str:
    """Return the name of a collection. Raises `ConfigError`."""
    if not (0 < len(name) <= MAX_NAME_CHARACTERS and name.isprintable()):
        raise ConfigError(
            f"A collection is called {name[:MAX_NAME_CHARACTERS]!r}; allowed: up to"
            f" {MAX_NAME_CHARACTERS} characters that can be printed."
        )
    return name
