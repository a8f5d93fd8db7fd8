"""A library in a file, for one machine."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from stepwell.core.clock import Clock
from stepwell.core.documents import (
    CollectionId,
    CollectionState,
    Document,
    DocumentState,
    Edition,
    EditionFigures,
    Epoch,
    KnownChunk,
    Passage,
    Recipe,
)
from stepwell.core.embedding import ContentDigest
from stepwell.core.errors import StoreUnavailable
from stepwell.core.events import Event
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Vector
from stepwell.stores.disk.database import Alone, Database
from stepwell.stores.disk.documents import changes, tables
from stepwell.stores.disk.documents.search import Search
from stepwell.stores.disk.faults import as_store_error
from stepwell.stores.disk.files import Files
from stepwell.stores.disk.jobs import Bounds, Job, Lane
from stepwell.stores.disk.opening import transaction

T = TypeVar("T")

COMPONENT = "documents"
"""What failed, in events."""

PAGE = 1_000
"""Documents or chunks read at once."""

_BOUNDS = Bounds(
    jobs=1_000,
    size_bytes=1 << 30,
    batch_jobs=1,
    batch_bytes=1 << 30,
    overflow=StoreUnavailable,
)


class _Desk:
    """Handler of a thread: each job takes the connection, and is done by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def handle(self, jobs: Sequence[Job[sqlite3.Connection]]) -> None:
        """Do them, a read only if its caller still waits."""
        for job in jobs:
            if job.durable or not job.future.done():
                try:
                    job.result = self._database.run(job.work)
                except Exception as error:  # noqa: BLE001  (the port promises StoreError alone)
                    job.error = as_store_error(error, self._database.files.directory)

    def idle(self) -> None:
        """Do nothing."""

    def take_events(self) -> Sequence[Event]:
        """Return what happened since the last call."""
        return self._database.take_events()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


class DiskLibrary:
    """A `Library` in one SQLite file of a data directory, shared by processes.

    Safe for many tasks on one event loop; searches and changes have a thread each. A change of a
    document is a transaction, which survives a killed process. A file that is found damaged is
    moved aside and started empty: then documents must be synced again. Vectors are kept in half
    precision and searched exactly, which is quick up to some 100,000 passages.
    """

    def __init__(
        self,
        reads: "Lane[sqlite3.Connection]",
        writes: "Lane[sqlite3.Connection]",
        search: Search,
        *,
        timeout_seconds: float,
    ) -> None:
        """Take over what `open` made."""
        self._reads = reads
        self._writes = writes
        self._search = search
        self._timeout_seconds = timeout_seconds

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        clock: Clock,
        events: EventSink,
        max_bytes: int = 512 << 20,
        timeout_seconds: float = 30.0,
    ) -> Self:
        """Open the library in ``directory``, which is made, for this user only, if need be.

        Args:
            directory: On a local file system.
            clock: Stamps the name of a damaged file.
            events: Gets `Degraded`, on the calling loop.
            max_bytes: Bound on the vectors kept in memory.
            timeout_seconds: What a call may take.

        Raises:
            StoreUnavailable: The directory cannot be used; says why and what to do.
            StoreFull: There is no space for a new file.
        """
        files = Files(directory, tables.NAME)

        def lane(name: str) -> "Lane[sqlite3.Connection]":
            database = Database(files, tables.TABLES, clock, beside=Alone(), component=COMPONENT)
            return Lane(
                name, _Desk(database), bounds=_BOUNDS, clock=clock, events=events, poll_seconds=60.0
            )

        library = cls(
            lane("documents reads"),
            lane("documents writes"),
            Search(max_bytes),
            timeout_seconds=timeout_seconds,
        )
        try:
            await library.collections()
        except BaseException:
            await library.aclose()
            raise
        return library

    async def collections(self) -> Sequence[CollectionState]:
        """As `Library.collections`."""
        return await self._read(tables.collections)

    async def collection(self, name: str) -> CollectionState | None:
        """As `Library.collection`."""
        return await self._read(partial(tables.collection, name=name))

    async def edition(self, name: str, recipe: Recipe) -> tuple[CollectionState, Edition]:
        """As `Library.edition`."""
        return await self._write(partial(changes.edition, name=name, recipe=recipe))

    async def documents(self, edition: Edition) -> AsyncIterator[tuple[str, DocumentState]]:
        """As `Library.documents`."""
        after: str | None = None
        while page := await self._read(
            partial(changes.documents_after, edition=edition, name=after, at_most=PAGE)
        ):
            for row in page:
                yield row
            after, _ = page[-1]

    async def document(self, edition: Edition, name: str) -> DocumentState | None:
        """As `Library.document`."""
        return await self._read(partial(changes.document, edition=edition, name=name))

    async def figures(self, edition: Edition) -> EditionFigures:
        """As `Library.figures`."""
        return await self._read(partial(changes.figures, edition=edition))

    async def chunks(self, edition: Edition) -> AsyncIterator[KnownChunk]:
        """As `Library.chunks`."""
        after = 0
        while page := await self._read(
            partial(changes.chunks_after, edition=edition, passage=after, at_most=PAGE)
        ):
            for _, chunk in page:
                yield chunk
            after, _ = page[-1]

    async def missing(
        self, edition: Edition, digests: Sequence[ContentDigest]
    ) -> frozenset[ContentDigest]:
        """As `Library.missing`. A look into an index for each."""
        found = await self._read(partial(changes.known, edition=edition, digests=digests))
        return frozenset(digests) - found

    async def replace(
        self,
        edition: Edition,
        document: Document,
        vectors: Mapping[ContentDigest, Vector],
        known: Epoch,
    ) -> Sequence[KnownChunk] | None:
        """As `Library.replace`."""
        return await self._write(
            partial(
                changes.replace, edition=edition, document=document, vectors=vectors, known=known
            )
        )

    async def annotate(self, edition: Edition, name: str, metadata: str, known: Epoch) -> bool:
        """As `Library.annotate`."""
        return await self._write(
            partial(changes.annotate, edition=edition, name=name, metadata=metadata, known=known)
        )

    async def remove(
        self, edition: Edition, name: str, known: Epoch
    ) -> Sequence[KnownChunk] | None:
        """As `Library.remove`."""
        return await self._write(partial(changes.remove, edition=edition, name=name, known=known))

    async def serve(self, collection: CollectionId, edition: Edition) -> None:
        """As `Library.serve`; quick."""
        await self._write(partial(changes.serve, collection=collection, edition=edition))

    async def used(self, digests: Sequence[ContentDigest]) -> frozenset[ContentDigest]:
        """As `Library.used`."""
        return await self._read(partial(changes.used, digests=digests))

    async def nearest(self, edition: Edition, vector: Vector, k: int) -> Sequence[Passage]:
        """As `Library.nearest`: exact."""

        def search(connection: sqlite3.Connection) -> Sequence[Passage]:
            with transaction(connection, write=False):
                return self._search.nearest(connection, edition, vector, k)

        return await self._read(search)

    async def rename(self, collection: CollectionId, name: str) -> bool:
        """As `Library.rename`."""
        return await self._write(partial(changes.rename, collection=collection, name=name))

    async def drop(self, collection: CollectionId) -> None:
        """As `Library.drop`."""
        await self._write(partial(changes.drop, collection=collection))

    async def aclose(self) -> None:
        """As `Library.aclose`; a call that hangs is left behind."""
        await self._writes.aclose(self._timeout_seconds)
        await self._reads.aclose(self._timeout_seconds)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._reads.call(work, timeout_seconds=self._timeout_seconds)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._writes.call(work, timeout_seconds=self._timeout_seconds, durable=True)
