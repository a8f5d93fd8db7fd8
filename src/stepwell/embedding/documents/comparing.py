"""What is to be done about a document, by what a collection knows of it. Pure."""

import hashlib
from dataclasses import dataclass

from stepwell.core.documents import Chunk, Document, DocumentState
from stepwell.core.embedding import ContentDigest
from stepwell.embedding.documents.cutting import Bounds, cut
from stepwell.embedding.documents.sources import Given

MAX_NAME_BYTES = 1_024
"""Databases find documents by an index over their names."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A document of a source, and what was known of it."""

    given: Given
    content: bytes
    """SHA-256 of its text."""
    known: DocumentState | None

    @property
    def same_text(self) -> bool:
        """Whether its text is what is known."""
        return self.known is not None and self.known.content == self.content

    @property
    def unchanged(self) -> bool:
        """Whether there is nothing to do. Its times count as nothing."""
        return (
            self.same_text
            and self.known is not None
            and self.known.metadata == _digest(self.given.metadata)
        )


def compare(given: Given, known: DocumentState | None) -> Compared:
    """Return ``given`` beside what is known of it.

    Raises:
        ValueError: It cannot be kept: its name is too long, or there is a lone surrogate in it.
    """
    if not 0 < len(given.name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"its name is longer than {MAX_NAME_BYTES} bytes, or empty")
    return Compared(given, _digest(given.text), known)


def cut_document(compared: Compared, bounds: Bounds) -> Document:
    """Return a document as it is kept. A text of blanks alone has no chunks.

    Costs one pass over the text; see `stepwell.embedding.documents.cutting`.
    """
    given = compared.given
    pieces = [] if given.text.isspace() else cut(given.text, bounds)
    chunks = tuple(
        Chunk(ContentDigest(_digest(piece.text)), piece.text, piece.start) for piece in pieces
    )
    return Document(given.name, compared.content, given.metadata, given.updated_at, chunks)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
