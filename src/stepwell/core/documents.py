"""Documents, cut into chunks that can be searched by meaning: what sync and RAG ask of a library.

Needs numpy, as `stepwell.core.vectors` does.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NewType, Protocol

from stepwell.core.embedding import ContentDigest, VectorKind
from stepwell.core.vectors import Vector

CollectionId = NewType("CollectionId", int)
"""Names a collection, whatever it is called meanwhile. Random: no two collections of any library
have the same, so with its epoch it names what is in the collection."""

COLLECTION_BITS = 62
"""Of a `CollectionId`; databases count to 63."""

Edition = NewType("Edition", int)
"""Names one way of cutting and embedding the documents of a collection."""

Epoch = NewType("Epoch", int)
"""Grows with each change of a document, or of a collection; 0: there was none yet."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the documents of an edition become points: changed, every document is made anew."""

    kind: VectorKind
    """Of the chunks' vectors."""
    dimensions: int
    """Width of those vectors."""
    chunker: str
    """Name and bounds of what cuts documents, such as ``sentences-v1:400:1600``."""


@dataclass(frozen=True, slots=True)
class CollectionState:
    """A collection as a run finds it."""

    collection: CollectionId
    name: str
    epoch: Epoch
    """Grows with every change that a search could notice, a change of edition included."""
    serving: Edition | None
    """What is searched; ``None``: nothing has been put in yet."""
    recipe: Recipe | None
    """Of that edition."""


class DocumentState(NamedTuple):
    """What is known of a document without reading it."""

    epoch: Epoch
    content: bytes
    """SHA-256 of its text; 32 bytes."""
    metadata: bytes
    """SHA-256 of its metadata, as they are stored."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document."""

    digest: ContentDigest
    """Of its text: what its vector is found under."""
    text: str
    start: int
    """Where it begins in the document, in characters."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document, cut."""

    name: str
    """Path or id; unique in its collection."""
    content: bytes
    """SHA-256 of its text."""
    metadata: str
    """A JSON object."""
    updated_at: float
    """When its text last changed, as its source says; seconds since the Unix epoch."""
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that is near a question."""

    document: str
    digest: ContentDigest
    text: str
    start: int
    similarity: float
    """Cosine, from -1 to 1."""
    metadata: str
    updated_at: float


class KnownChunk(NamedTuple):
    """A text that chunks of an edition have, or had."""

    digest: ContentDigest
    text: str


class EditionFigures(NamedTuple):
    """How much there is of an edition."""

    documents: int
    passages: int
    """Distinct texts of chunks."""


class Library(Protocol):
    """Collections of documents. Each change of a document is whole: chunks, vectors and all.

    Safe for many tasks on one event loop. No call blocks the loop. Every method raises
    `StoreError` when the library cannot do its work, of which `EditionGone` where what is asked
    about was dropped meanwhile.
    """

    async def collections(self) -> Sequence[CollectionState]:
        """Return all collections by name."""
        ...

    async def collection(self, name: str) -> CollectionState | None:
        """Return the collection of that name, or ``None``."""
        ...

    async def edition(self, name: str, recipe: Recipe) -> tuple[CollectionState, Edition]:
        """Return the edition of a collection that is made so, making what is missing.

        It may be the one that is searched, one that an earlier run began, or a new one: it is
        searched once `serve` says so.
        """
        ...

    def documents(self, edition: Edition) -> AsyncIterator[tuple[str, DocumentState]]:
        """Yield the documents of an edition by name."""
        ...

    async def document(self, edition: Edition, name: str) -> DocumentState | None:
        """Return what is known of one document, or ``None``."""
        ...

    async def figures(self, edition: Edition) -> EditionFigures:
        """Return how much there is of an edition."""
        ...

    def chunks(self, edition: Edition) -> AsyncIterator[KnownChunk]:
        """Yield the texts of all chunks of an edition, each once, in no order."""
        ...

    async def missing(
        self, edition: Edition, digests: Sequence[ContentDigest]
    ) -> frozenset[ContentDigest]:
        """Return of which texts the edition has no vector: no document has such a chunk yet."""
        ...

    async def replace(
        self,
        edition: Edition,
        document: Document,
        vectors: Mapping[ContentDigest, Vector],
        known: Epoch,
    ) -> Sequence[KnownChunk] | None:
        """Put ``document`` in place of what stands under its name, in one transaction.

        Args:
            edition: Where.
            document: Without a chunk it is known, and never found.
            vectors: Of the chunks that are `missing`, of unit length.
            known: The epoch it had when it was looked at; 0: it was not there.

        Returns:
            The texts that no document of the edition has any more. ``None`` if it has another
            epoch by now, or a vector is missing by now: then nothing was changed.
        """
        ...

    async def annotate(self, edition: Edition, name: str, metadata: str, known: Epoch) -> bool:
        """Put other metadata on a document; as `replace`."""
        ...

    async def remove(
        self, edition: Edition, name: str, known: Epoch
    ) -> Sequence[KnownChunk] | None:
        """Take a document out; as `replace`."""
        ...

    async def serve(self, collection: CollectionId, edition: Edition) -> None:
        """Search ``edition`` from now on, and drop all others of the collection.

        May take minutes where an index must be built first. Not done by halves: until it is,
        what was searched before is.
        """
        ...

    async def used(self, digests: Sequence[ContentDigest]) -> frozenset[ContentDigest]:
        """Return which of ``digests`` some chunk of some edition still has."""
        ...

    async def nearest(self, edition: Edition, vector: Vector, k: int) -> Sequence[Passage]:
        """Return the ``k`` passages nearest to ``vector``, nearest first.

        Equal texts come once, as of the document whose text changed last.
        """
        ...

    async def rename(self, collection: CollectionId, name: str) -> bool:
        """Call a collection otherwise; ``False`` if another one is called so."""
        ...

    async def drop(self, collection: CollectionId) -> None:
        """Remove a collection and all that is in it."""
        ...

    async def aclose(self) -> None:
        """Release everything. May be called twice."""
        ...
