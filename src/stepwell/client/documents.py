"""Documents in a program: put in, kept in step, searched by meaning."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from stepwell.assembly.extras import extra_for
from stepwell.assembly.settings import Settings, parse_settings
from stepwell.client.given import settings_of
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.events import Event
from stepwell.embedding.documents.sources import Read, read_rows, read_source
from stepwell.embedding.documents.summary import Summary

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.assembly.documents import Sink
    from stepwell.client.document_desk import DocumentDesk
    from stepwell.core.documents import CollectionState, EditionFigures, Passage

Source = Path | str | Iterable[Mapping[str, Any]]
"""A directory of text files, a ``.jsonl`` file, or the objects that its lines would hold."""


class Documents:
    """Collections of documents, in a data directory or in PostgreSQL.

    ::

        async with stepwell.Documents(data_dir="data") as documents:
            await documents.sync("manual", "docs/")
            for passage in await documents.search("manual", "How do I get a refund?"):
                print(passage.document, passage.text)

    Async; safe for many tasks on one event loop, not across threads. The embedder is loaded when
    it is first needed, in this process, if it is a bundled one. Needs numpy.
    """

    def __init__(
        self,
        settings: Settings | Mapping[str, Any] | Path | str | None = None,
        *,
        data_dir: Path | str | None = None,
        redis: str | None = None,
        postgres: str | None = None,
        events: "Sink | None" = None,
    ) -> None:
        """Describe them; nothing happens before they are entered.

        Args:
            settings: As the settings file has them: parsed, as plain tables, or the file.
                ``[semantic]`` says what embeds, ``[stores]`` and ``[embedding]`` where vectors
                are kept.
            data_dir: Where documents and vectors are, unless in PostgreSQL.
            redis: URL of a Redis that holds vectors besides; instead of the settings'.
            postgres: URL of the PostgreSQL that has documents and vectors; instead of the
                settings'.
            events: Hears what fails without anybody's call failing.

        Raises:
            ConfigError: A setting is wrong.
        """
        self._settings = _with_servers(settings_of(settings), redis, postgres)
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._events: Sink = events or _Silence()
        self._desk: DocumentDesk | None = None

    async def __aenter__(self) -> Self:
        """Open the library.

        Raises:
            ConfigError: A setting cannot be used, or there is no place for documents.
            StoreUnavailable: The data directory cannot be used.
        """
        with extra_for("stepwell.Documents is used", "embedding"):
            from stepwell.client.document_desk import DocumentDesk  # noqa: PLC0415
        self._desk = await DocumentDesk.open(self._settings, self._data_dir, self._events)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what is pending and close everything."""
        desk, self._desk = self._desk, None
        if desk is not None:
            await desk.aclose()

    async def sync(
        self,
        collection: str,
        source: Source,
        *,
        allow_empty: bool = False,
        on_progress: Callable[[Summary], None] = lambda _: None,
    ) -> Summary:
        """Bring a collection in step with ``source``; it is made if need be.

        Only chunks that are new are embedded. What is not in the source any more is taken out.
        May be cancelled: what was done stays, and the next run does the rest.

        Args:
            collection: Its name.
            source: Where the documents are.
            allow_empty: Take out everything if there is nothing in the source.
            on_progress: Called now and then with what was done so far.

        Raises:
            ConfigError: There is no such source; it is empty, and the collection is not; or there
                is no embedder.
            EmbeddingError: Documents cannot be embedded, several in a row.
            StoreError: The library failed; `EditionGone` if the collection was dropped meanwhile.
        """
        return await self._entered().sync(
            collection, partial(_read, source), allow_empty=allow_empty, on_progress=on_progress
        )

    async def foresee(self, collection: str, source: Source) -> Summary:
        """Return what `sync` would do; changes nothing. Raises as `sync`."""
        return await self._entered().foresee(collection, partial(_read, source))

    async def search(self, collection: str, question: str, *, top: int = 5) -> "Sequence[Passage]":
        """Return the passages nearest to ``question`` in meaning, nearest first.

        Raises:
            ConfigError: There is no such collection, or it was embedded by another model.
            RequestError: There is nothing in the question that could be embedded.
            EmbeddingError: It could not be embedded.
            StoreError: The library failed.
        """
        return await self._entered().search(collection, question, top)

    async def collections(self) -> "Sequence[CollectionState]":
        """Return all collections by name. Raises `StoreError`."""
        return await self._entered().collections()

    async def collection(self, name: str) -> "CollectionState":
        """Return a collection.

        Raises:
            ConfigError: There is none of that name.
            StoreError: The library failed.
        """
        return await self._entered().collection(name)

    async def figures(self, state: "CollectionState") -> "EditionFigures":
        """Return how much of a collection is searched. Raises `StoreError`."""
        return await self._entered().figures(state)

    async def rename(self, name: str, new: str) -> None:
        """Call a collection otherwise; runs that fill it go on.

        Raises:
            ConfigError: There is none of that name, or one of the new name.
            StoreError: The library failed.
        """
        await self._entered().rename(name, new)

    async def drop(self, name: str) -> int:
        """Remove a collection and all that is in it.

        The vectors of its texts that no other collection has are forgotten, too.

        Returns:
            Of how many texts the cache may know the vectors all the same, since it failed.

        Raises:
            ConfigError: There is none of that name.
            StoreError: The library failed.
        """
        return await self._entered().drop(name)

    def _entered(self) -> "DocumentDesk":
        if self._desk is None:
            raise RuntimeError("Use the documents inside `async with`.")
        return self._desk


class _Silence:
    def emit(self, event: Event | EmbeddingEvent) -> None:
        """Say nothing."""


def _with_servers(settings: Settings, redis: str | None, postgres: str | None) -> Settings:
    if redis is None and postgres is None:
        return settings
    tables = msgspec.to_builtins(settings)
    for store, url in (("redis", redis), ("postgres", postgres)):
        if url is not None:
            tables["stores"][store]["url"] = url
    return parse_settings(tables)


def _read(source: Source) -> Iterator[Read]:
    return read_source(Path(source)) if isinstance(source, Path | str) else read_rows(source)
