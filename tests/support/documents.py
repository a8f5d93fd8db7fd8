"""Documents, and an embedder of their chunks, for tests of sync and of libraries."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stepwell.core.clock import SystemClock
from stepwell.core.documents import Library, Passage
from stepwell.core.embedding import VectorKind
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.errors import EmbeddingError
from stepwell.core.events import Event
from stepwell.embedding.documents.cutting import Bounds
from stepwell.embedding.documents.sources import Given, Read
from stepwell.embedding.documents.summary import Summary
from stepwell.embedding.documents.sync import Sync
from stepwell.embedding.documents.vectors import ChunkVectors
from stepwell.stores.disk.documents.store import DiskLibrary
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Address, Dialer
from stepwell.stores.postgres.documents.schema import SESSION, DocumentSchema
from stepwell.stores.postgres.documents.store import PostgresLibrary
from stepwell.testing.clock import HandClock
from stepwell.testing.documents_contract import DIMENSIONS, vector_of
from support.redis_servers import PATIENCE_SECONDS

MANUAL = "manual"
SMALL = Bounds(1, 1_001)
"""Every sentence or two is a chunk."""


class Ignored:
    """A sink for events nobody looks at."""

    def emit(self, event: Event | EmbeddingEvent) -> None:
        """Drop ``event``."""


class FakeChunks:
    """A `ChunkEmbedder` that keeps what it is asked, and fails when it is told to."""

    def __init__(self, model: str = "model") -> None:
        self.kind = VectorKind("test", model)
        self.dimensions = DIMENSIONS
        self.embedded: list[str] = []
        """All texts so far."""
        self.calls = 0
        self.forgotten: list[str] = []
        self.poison: set[str] = set()
        """Texts that cannot be embedded."""
        self.fails = False
        self.before_answering = asyncio.Event()
        """Cleared: no call is answered."""
        self.before_answering.set()

    async def embed(self, texts: Sequence[str]) -> ChunkVectors:
        """Return vectors of their own; of blanks none."""
        await self.before_answering.wait()
        self.calls += 1
        if self.fails or not self.poison.isdisjoint(texts):
            raise EmbeddingError("told to fail")
        self.embedded += texts
        return ChunkVectors([None if text.isspace() else vector_of(text) for text in texts], 0)

    async def forget(self, texts: Sequence[str]) -> None:
        """Keep what was to be forgotten."""
        self.forgotten += texts

    def take(self) -> list[str]:
        """Return what was embedded since the last time."""
        taken, self.embedded, self.calls = self.embedded, [], 0
        return taken


def given(
    documents: Mapping[str, str], metadata: str = "{}", updated_at: float = 1.0
) -> list[Read]:
    """Return documents as a source yields them."""
    return [Given(name, text, metadata, updated_at) for name, text in documents.items()]


async def open_library(directory: Path) -> DiskLibrary:
    """Open a library in a file."""
    return await DiskLibrary.open(directory, clock=HandClock(), events=Ignored())


async def sync(
    library: Library,
    embedder: FakeChunks,
    source: Mapping[str, str] | Sequence[Read],
    *,
    name: str = MANUAL,
    bounds: Bounds = SMALL,
    allow_empty: bool = False,
) -> Summary:
    """Bring a collection in step with ``source``."""
    reads = given(source) if isinstance(source, Mapping) else source

    def begin() -> Iterator[Read]:
        return iter(reads)

    run = Sync(library, embedder, clock=SystemClock(), bounds=bounds)
    return await run.run(name, begin, allow_empty=allow_empty)


async def found(library: Library, text: str, name: str = MANUAL, k: int = 1) -> Sequence[Passage]:
    """Search what is served for what is near ``text``."""
    state = await library.collection(name)
    assert state is not None
    return [] if state.serving is None else await library.nearest(state.serving, vector_of(text), k)


async def texts(library: Library, name: str = MANUAL) -> set[str]:
    """Return all texts that can be found."""
    return {passage.text for passage in await found(library, "anything", name, k=10_000)}


async def open_postgres_library(
    url: str, prefix: str = "stepwell", timeout_seconds: float = PATIENCE_SECONDS
) -> PostgresLibrary:
    """Open a library on PostgreSQL."""
    schema = DocumentSchema(prefix)

    def database(connections: int) -> Database:
        dialer = Dialer(Address(url), timeout_seconds, schema.prepare, SESSION)
        return Database(dialer, connections=connections, on_change=lambda _: None)

    library = PostgresLibrary(schema, database(1), database(2), database(1))
    await library.start()
    return library
