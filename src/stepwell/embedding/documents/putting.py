"""Putting documents into an edition, each by a transaction of its own."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stepwell.core.documents import (
    Chunk,
    Document,
    DocumentState,
    Edition,
    Epoch,
    KnownChunk,
    Library,
)
from stepwell.core.embedding import ContentDigest
from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Vector
from stepwell.embedding.documents.comparing import Compared, compare, cut_document
from stepwell.embedding.documents.cutting import Bounds
from stepwell.embedding.documents.sources import Unread
from stepwell.embedding.documents.summary import Summary
from stepwell.embedding.documents.vectors import ChunkEmbedder

EMBEDDED_AT_ONCE: Final = 64
"""Texts."""

LOST_RACES: Final = 5
"""How often others may change a document meanwhile, before it is left to the next run."""

FAILURES: Final = 3
"""Documents in a row that cannot be embedded: then it is not the documents' fault."""

Vectors = Mapping[ContentDigest, Vector | None]
"""Of the chunks that an edition lacked; ``None``: it has none that means anything."""


@dataclass(frozen=True, slots=True)
class _Cut:
    compared: Compared
    document: Document
    races: int = LOST_RACES
    vectors: Vectors = field(default_factory=dict)
    """That were computed for it before a race was lost."""


class Putting:
    """Puts documents into one edition, and takes them out. For one run."""

    def __init__(
        self,
        library: Library,
        embedder: ChunkEmbedder,
        bounds: Bounds,
        edition: Edition,
        on_progress: Callable[[Summary], None],
    ) -> None:
        """Do nothing yet; ``on_progress`` is called after each call of the embedder."""
        self.summary = Summary()
        self.left: list[KnownChunk] = []
        """Texts that no document of the edition has any more."""
        self._library = library
        self._embedder = embedder
        self._bounds = bounds
        self.edition = edition
        self._on_progress = on_progress
        self._failures = 0

    async def put(self, documents: Sequence[Compared]) -> None:
        """Cut ``documents``, embed what the edition lacks of all of them, and put them in.

        Raises:
            EmbeddingError: Several in a row could not be embedded.
            StoreError: The library failed.
        """
        if documents:
            await self._put(await asyncio.to_thread(self._cut, documents))

    async def annotate(self, compared: Compared) -> None:
        """Put other metadata on a document. Raises as `put`."""
        await self._annotate(compared, LOST_RACES)

    async def remove(self, name: str, known: DocumentState) -> None:
        """Take a document out, unless others have changed it meanwhile. Raises `StoreError`."""
        left = await self._library.remove(self.edition, name, known.epoch)
        if left is not None:
            self.left += left
            self.summary.removed += 1

    async def _put(self, documents: Sequence[_Cut]) -> None:
        try:
            vectors = await self._vectors(documents)
        except EmbeddingError as error:
            if len(documents) == 1:
                self._fail(documents[0], error)
                return
            # One of them may be at fault; the others are not held up by it.
            for cut in documents:
                await self._put([cut])
            return
        self._failures = 0
        for cut in documents:
            await self._replace(cut, vectors)

    async def _replace(self, cut: _Cut, vectors: Vectors) -> None:
        unfit = {digest for digest, vector in vectors.items() if vector is None}
        chunks = tuple(chunk for chunk in cut.document.chunks if chunk.digest not in unfit)
        left = await self._library.replace(
            self.edition,
            replace(cut.document, chunks=chunks),
            {digest: vector for digest, vector in vectors.items() if vector is not None},
            _epoch(cut.compared),
        )
        if left is None:
            await self._again(cut.compared, cut.races - 1, vectors)
            return
        self.left += left
        self.summary.chunks += len(cut.document.chunks)
        self.summary.unfit += len(cut.document.chunks) - len(chunks)
        if cut.compared.known is None:
            self.summary.added += 1
        else:
            self.summary.changed += 1

    async def _annotate(self, compared: Compared, races: int) -> None:
        given = compared.given
        epoch = _epoch(compared)
        if await self._library.annotate(self.edition, given.name, given.metadata, epoch):
            self.summary.annotated += 1
        else:
            await self._again(compared, races - 1, {})

    async def _again(self, compared: Compared, races: int, vectors: Vectors) -> None:
        """Look at a document that others changed meanwhile, and do what is left to do."""
        given = compared.given
        if races == 0:
            self.summary.failed.append(Unread(given.name, "others change it again and again"))
            return
        compared = compare(given, await self._library.document(self.edition, given.name))
        if compared.unchanged:
            self.summary.unchanged += 1
        elif compared.same_text:
            await self._annotate(compared, races)
        else:
            (cut,) = await asyncio.to_thread(self._cut, [compared])
            await self._put([replace(cut, races=races, vectors=vectors)])

    def _cut(self, documents: Sequence[Compared]) -> list[_Cut]:
        return [_Cut(one, cut_document(one, self._bounds)) for one in documents]

    async def _vectors(self, documents: Sequence[_Cut]) -> Vectors:
        """Return the vectors of all chunks that the edition lacks. Raises `EmbeddingError`."""
        chunks = {chunk.digest: chunk for cut in documents for chunk in cut.document.chunks}
        vectors = {digest: vector for cut in documents for digest, vector in cut.vectors.items()}
        missing = await self._library.missing(self.edition, [*chunks])
        wanted = [
            chunk for digest, chunk in chunks.items() if digest in missing and digest not in vectors
        ]
        for start in range(0, len(wanted), EMBEDDED_AT_ONCE):
            vectors.update(await self._embed(wanted[start : start + EMBEDDED_AT_ONCE]))
        return vectors

    async def _embed(self, chunks: Sequence[Chunk]) -> Vectors:
        found = await self._embedder.embed([chunk.text for chunk in chunks])
        self.summary.embedded += len(chunks) - found.known
        self.summary.from_cache += found.known
        self._on_progress(self.summary)
        return dict(zip((chunk.digest for chunk in chunks), found.vectors, strict=True))

    def _fail(self, cut: _Cut, error: EmbeddingError) -> None:
        """Note that a document cannot be embedded; what is known of it stays as it is."""
        self._failures += 1
        if self._failures == FAILURES:
            raise error
        self.summary.failed.append(Unread(cut.document.name, str(error)))


def _epoch(compared: Compared) -> Epoch:
    return Epoch(0) if compared.known is None else compared.known.epoch
