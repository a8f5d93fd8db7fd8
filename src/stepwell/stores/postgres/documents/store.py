"""A library on PostgreSQL with pgvector, for many machines."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import asyncpg

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
from stepwell.core.errors import EditionGone
from stepwell.core.vectors import Vector
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Connection
from stepwell.stores.postgres.documents import asking, changes
from stepwell.stores.postgres.documents.schema import DocumentSchema

T = TypeVar("T")
Work = Callable[[Connection, DocumentSchema], Awaitable[T]]

PAGE = 1_000
"""Documents or chunks read at once."""


class PostgresLibrary:
    """A `Library` in a database of PostgreSQL's, shared by all who use its prefix.

    One event loop; safe for many tasks. Vectors are kept in half precision and found by an HNSW
    index, which is built when an edition is first searched: near ones are seldom missed.
    """

    def __init__(
        self, schema: DocumentSchema, searching: Database, changing: Database, building: Database
    ) -> None:
        """Do nothing until `start`. The databases are started and closed with this.

        Args:
            schema: What the tables are called.
            searching: For searches, whose time is short.
            changing: For changes of documents, and for lists.
            building: For indexes, which take minutes, and for dropping them.
        """
        self._schema = schema
        self._searching = searching
        self._changing = changing
        self._building = building

    async def start(self) -> None:
        """Connect, and make what is missing, or go on trying in the background.

        Raises:
            ConfigError: What no waiting mends.
        """
        for database in (self._changing, self._searching, self._building):
            await database.start()

    @property
    def trouble(self) -> str:
        """Why it is not asked just now; empty if it is."""
        return self._searching.trouble or self._changing.trouble or self._building.trouble

    async def collections(self) -> Sequence[CollectionState]:
        """As `Library.collections`."""
        return await self._run(self._searching, asking.collections)

    async def collection(self, name: str) -> CollectionState | None:
        """As `Library.collection`."""
        return await self._run(self._searching, partial(asking.collection, name=name))

    async def edition(self, name: str, recipe: Recipe) -> tuple[CollectionState, Edition]:
        """As `Library.edition`.

        Raises:
            ConfigError: Vectors of that width cannot be indexed.
        """
        return await self._run(self._changing, partial(changes.edition, name=name, recipe=recipe))

    async def documents(self, edition: Edition) -> AsyncIterator[tuple[str, DocumentState]]:
        """As `Library.documents`."""
        after: str | None = None
        while page := await self._of(
            edition,
            self._changing,
            partial(asking.documents_after, edition=edition, name=after, at_most=PAGE),
        ):
            for row in page:
                yield row
            after, _ = page[-1]

    async def document(self, edition: Edition, name: str) -> DocumentState | None:
        """As `Library.document`."""
        work = partial(asking.document, edition=edition, name=name)
        return await self._of(edition, self._changing, work)

    async def figures(self, edition: Edition) -> EditionFigures:
        """As `Library.figures`. Counts rows."""
        return await self._of(edition, self._changing, partial(asking.figures, edition=edition))

    async def chunks(self, edition: Edition) -> AsyncIterator[KnownChunk]:
        """As `Library.chunks`."""
        after = 0
        while page := await self._of(
            edition,
            self._changing,
            partial(asking.chunks_after, edition=edition, passage=after, at_most=PAGE),
        ):
            for _, chunk in page:
                yield chunk
            after, _ = page[-1]

    async def missing(
        self, edition: Edition, digests: Sequence[ContentDigest]
    ) -> frozenset[ContentDigest]:
        """As `Library.missing`. One query."""
        work = partial(asking.known, edition=edition, digests=digests)
        return frozenset(digests) - await self._of(edition, self._changing, work)

    async def replace(
        self,
        edition: Edition,
        document: Document,
        vectors: Mapping[ContentDigest, Vector],
        known: Epoch,
    ) -> Sequence[KnownChunk] | None:
        """As `Library.replace`. Ten round trips."""
        work = partial(
            changes.replace, edition=edition, document=document, vectors=vectors, known=known
        )
        return await self._of(edition, self._changing, work)

    async def annotate(self, edition: Edition, name: str, metadata: str, known: Epoch) -> bool:
        """As `Library.annotate`."""
        work = partial(changes.annotate, edition=edition, name=name, metadata=metadata, known=known)
        return await self._of(edition, self._changing, work)

    async def remove(
        self, edition: Edition, name: str, known: Epoch
    ) -> Sequence[KnownChunk] | None:
        """As `Library.remove`."""
        work = partial(changes.remove, edition=edition, name=name, known=known)
        return await self._of(edition, self._changing, work)

    async def serve(self, collection: CollectionId, edition: Edition) -> None:
        """As `Library.serve`. Builds the index first, and only the first time."""
        await self._of(edition, self._building, partial(changes.index, edition=edition))
        work = partial(changes.serve, collection=collection, edition=edition)
        await self._of(edition, self._building, work)

    async def used(self, digests: Sequence[ContentDigest]) -> frozenset[ContentDigest]:
        """As `Library.used`."""
        return await self._run(self._changing, partial(asking.used, digests=digests))

    async def nearest(self, edition: Edition, vector: Vector, k: int) -> Sequence[Passage]:
        """As `Library.nearest`."""
        work = partial(asking.nearest, edition=edition, vector=vector, k=k)
        return await self._of(edition, self._searching, work)

    async def rename(self, collection: CollectionId, name: str) -> bool:
        """As `Library.rename`."""
        work = partial(changes.rename, collection=collection, name=name)
        return await self._run(self._changing, work)

    async def drop(self, collection: CollectionId) -> None:
        """As `Library.drop`."""
        await self._run(self._building, partial(changes.drop, collection=collection))

    async def aclose(self) -> None:
        """As `Library.aclose`."""
        for database in (self._searching, self._changing, self._building):
            await database.aclose()

    async def _run(self, database: Database, work: Work[T]) -> T:
        async def do(connection: Connection) -> T:
            return await work(connection, self._schema)

        return await database.run(do)

    async def _of(self, edition: Edition, database: Database, work: Work[T]) -> T:
        """Do ``work``, which concerns an edition's tables."""

        async def do(connection: Connection, schema: DocumentSchema) -> T:
            try:
                return await work(connection, schema)
            except asyncpg.UndefinedTableError:
                is_there = f"SELECT FROM {schema.editions} WHERE id = $1"
                if await connection.fetchrow(is_there, edition) is not None:
                    raise
                raise EditionGone(
                    "the documents were dropped, or are made anew by another run"
                ) from None

        return await self._run(database, do)
