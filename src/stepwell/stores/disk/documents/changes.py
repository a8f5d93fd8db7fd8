"""What changes documents in the file, and what is asked of them; a transaction each.

Functions of a connection, called on the thread that has it.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from stepwell.core.documents import (
    Chunk,
    CollectionId,
    CollectionState,
    Document,
    DocumentState,
    Edition,
    EditionFigures,
    Epoch,
    KnownChunk,
    Recipe,
)
from stepwell.core.embedding import ContentDigest
from stepwell.core.errors import EditionGone
from stepwell.core.vectors import Vector
from stepwell.stores.disk.documents.tables import make_collection, recipe_row, vector_blob
from stepwell.stores.disk.opening import transaction


def edition(
    connection: sqlite3.Connection, name: str, recipe: Recipe
) -> tuple[CollectionState, Edition]:
    """As `Library.edition`."""
    with transaction(connection, write=True):
        state = make_collection(connection, name)
        row = (state.collection, *recipe_row(recipe))
        connection.execute(
            "INSERT INTO editions (collection, kind, dimensions, chunker) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            row,
        )
        (found,) = connection.execute(
            "SELECT id FROM editions"
            " WHERE collection = ? AND kind = ? AND dimensions = ? AND chunker = ?",
            row,
        ).fetchone()
    return state, Edition(found)


def document(connection: sqlite3.Connection, edition: Edition, name: str) -> DocumentState | None:
    """As `Library.document`."""
    require(connection, edition)
    row = connection.execute(
        "SELECT epoch, content, metadata FROM documents WHERE edition = ? AND name = ?",
        (edition, name),
    ).fetchone()
    return None if row is None else _document_state(*row)


def figures(connection: sqlite3.Connection, edition: Edition) -> EditionFigures:
    """As `Library.figures`."""
    require(connection, edition)
    counts = connection.execute(
        "SELECT (SELECT count(*) FROM documents WHERE edition = ?1),"
        " (SELECT count(*) FROM passages WHERE edition = ?1)",
        (edition,),
    )
    return EditionFigures(*counts.fetchone())


def documents_after(
    connection: sqlite3.Connection, edition: Edition, name: str | None, at_most: int
) -> Sequence[tuple[str, DocumentState]]:
    """Return some documents whose names come after ``name``, by name."""
    require(connection, edition)
    rows = connection.execute(
        "SELECT name, epoch, content, metadata FROM documents"
        " WHERE edition = ?1 AND (?2 IS NULL OR name > ?2) ORDER BY name LIMIT ?3",
        (edition, name, at_most),
    )
    return [(name, _document_state(*state)) for name, *state in rows]


def chunks_after(
    connection: sqlite3.Connection, edition: Edition, passage: int, at_most: int
) -> Sequence[tuple[int, KnownChunk]]:
    """Return some passages with larger ids than ``passage``, by id."""
    rows = connection.execute(
        "SELECT id, digest, text FROM passages WHERE edition = ? AND id > ? ORDER BY id LIMIT ?",
        (edition, passage, at_most),
    )
    return [(found, KnownChunk(ContentDigest(digest), text)) for found, digest, text in rows]


def _document_state(epoch: int, content: bytes, metadata: str) -> DocumentState:
    return DocumentState(Epoch(epoch), content, hashlib.sha256(metadata.encode()).digest())


def known(
    connection: sqlite3.Connection, edition: Edition, digests: Iterable[ContentDigest]
) -> frozenset[ContentDigest]:
    """Return which of ``digests`` the edition has a vector of."""
    require(connection, edition)
    return frozenset(
        digest for digest in digests if _passage(connection, edition, digest) is not None
    )


def used(
    connection: sqlite3.Connection, digests: Iterable[ContentDigest]
) -> frozenset[ContentDigest]:
    """As `Library.used`."""
    asked = "SELECT 1 FROM passages WHERE digest = ? LIMIT 1"
    return frozenset(
        digest for digest in digests if connection.execute(asked, (digest,)).fetchone()
    )


def replace(
    connection: sqlite3.Connection,
    edition: Edition,
    document: Document,
    vectors: Mapping[ContentDigest, Vector],
    known: Epoch,
) -> Sequence[KnownChunk] | None:
    """As `Library.replace`."""
    try:
        with transaction(connection, write=True):
            epoch = _advance(connection, edition)
            before = _expect(connection, edition, document.name, known)
            row = (epoch, document.content, document.metadata, document.updated_at)
            (identifier,) = connection.execute(
                "INSERT INTO documents (edition, name, epoch, content, metadata, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (edition, name) DO UPDATE SET"
                " epoch = excluded.epoch, content = excluded.content,"
                " metadata = excluded.metadata, updated_at = excluded.updated_at RETURNING id",
                (edition, document.name, *row),
            ).fetchone()
            old = [] if before is None else _take_chunks(connection, before)
            for number, chunk in enumerate(document.chunks):
                passage = _make_passage(connection, edition, chunk, vectors)
                connection.execute(
                    "INSERT INTO chunks VALUES (?, ?, ?, ?)",
                    (identifier, number, passage, chunk.start),
                )
            return _remove_orphans(connection, old)
    except _Lost:
        return None


def annotate(
    connection: sqlite3.Connection, edition: Edition, name: str, metadata: str, known: Epoch
) -> bool:
    """As `Library.annotate`."""
    try:
        with transaction(connection, write=True):
            epoch = _advance(connection, edition)
            document = _expect(connection, edition, name, known)
            connection.execute(
                "UPDATE documents SET epoch = ?, metadata = ? WHERE id = ?",
                (epoch, metadata, document),
            )
    except _Lost:
        return False
    return True


def remove(
    connection: sqlite3.Connection, edition: Edition, name: str, known: Epoch
) -> Sequence[KnownChunk] | None:
    """As `Library.remove`."""
    try:
        with transaction(connection, write=True):
            _advance(connection, edition)
            document = _expect(connection, edition, name, known)
            if document is None:
                return []
            old = _take_chunks(connection, document)
            connection.execute("DELETE FROM documents WHERE id = ?", (document,))
            return _remove_orphans(connection, old)
    except _Lost:
        return None


def serve(connection: sqlite3.Connection, collection: CollectionId, edition: Edition) -> None:
    """As `Library.serve`."""
    with transaction(connection, write=True):
        require(connection, edition)
        connection.execute(
            "UPDATE collections SET serving = ?1, epoch = epoch + (serving IS NOT ?1)"
            " WHERE id = ?2",
            (edition, collection),
        )
        _drop_editions(connection, collection, edition)


def rename(connection: sqlite3.Connection, collection: CollectionId, name: str) -> bool:
    """As `Library.rename`."""
    try:
        with transaction(connection, write=True):
            done = connection.execute(
                "UPDATE collections SET name = ?1, epoch = epoch + 1 WHERE id = ?2 AND name <> ?1",
                (name, collection),
            )
            if not done.rowcount and not _is_named(connection, collection, name):
                raise EditionGone("the collection was dropped")
    except sqlite3.IntegrityError:
        return False
    return True


def drop(connection: sqlite3.Connection, collection: CollectionId) -> None:
    """As `Library.drop`."""
    with transaction(connection, write=True):
        _drop_editions(connection, collection, None)
        connection.execute("DELETE FROM collections WHERE id = ?", (collection,))


def require(connection: sqlite3.Connection, edition: Edition) -> None:
    """Raise `EditionGone` if there is no such edition any more."""
    if connection.execute("SELECT 1 FROM editions WHERE id = ?", (edition,)).fetchone() is None:
        raise EditionGone("the documents were dropped, or are made anew by another run")


class _Lost(Exception):
    """Another was faster; the transaction is undone."""


def _advance(connection: sqlite3.Connection, edition: Edition) -> Epoch:
    """Return the epoch that a change makes, and is noted under."""
    row = connection.execute(
        "UPDATE collections SET epoch = epoch + 1"
        " WHERE id = (SELECT collection FROM editions WHERE id = ?) RETURNING epoch",
        (edition,),
    ).fetchone()
    if row is None:
        raise EditionGone("the documents were dropped, or are made anew by another run")
    return Epoch(row[0])


def _expect(
    connection: sqlite3.Connection, edition: Edition, name: str, known: Epoch
) -> int | None:
    """Return the id of a document that still has the epoch that is known, if there is one."""
    row = connection.execute(
        "SELECT id, epoch FROM documents WHERE edition = ? AND name = ?", (edition, name)
    ).fetchone()
    document, epoch = (None, 0) if row is None else row
    if epoch != known:
        raise _Lost
    return document


def _passage(connection: sqlite3.Connection, edition: Edition, digest: ContentDigest) -> int | None:
    row = connection.execute(
        "SELECT id FROM passages WHERE edition = ? AND digest = ?", (edition, digest)
    ).fetchone()
    return None if row is None else int(row[0])


def _make_passage(
    connection: sqlite3.Connection,
    edition: Edition,
    chunk: Chunk,
    vectors: Mapping[ContentDigest, Vector],
) -> int:
    """Return the id of a chunk's text, which is put in if the edition lacks it."""
    found = _passage(connection, edition, chunk.digest)
    if found is not None:
        return found
    vector = vectors.get(chunk.digest)
    if vector is None:
        raise _Lost  # Another document had it, and has it no more.
    (made,) = connection.execute(
        "INSERT INTO passages (edition, digest, text, vector) VALUES (?, ?, ?, ?) RETURNING id",
        (edition, chunk.digest, chunk.text, vector_blob(vector)),
    ).fetchone()
    return int(made)


def _take_chunks(connection: sqlite3.Connection, document: int) -> list[int]:
    """Remove a document's chunks; return the passages they had."""
    rows = connection.execute(
        "DELETE FROM chunks WHERE document = ? RETURNING passage", (document,)
    )
    return list(dict.fromkeys(passage for (passage,) in rows.fetchall()))


def _remove_orphans(connection: sqlite3.Connection, passages: Iterable[int]) -> list[KnownChunk]:
    """Remove those passages that no chunk has any more; return them."""
    gone: list[KnownChunk] = []
    for passage in passages:
        row = connection.execute(
            "DELETE FROM passages WHERE id = ?1"
            " AND NOT EXISTS (SELECT 1 FROM chunks WHERE passage = ?1) RETURNING digest, text",
            (passage,),
        ).fetchone()
        if row is not None:
            gone.append(KnownChunk(*row))
    return gone


def _drop_editions(
    connection: sqlite3.Connection, collection: CollectionId, kept: Edition | None
) -> None:
    editions = connection.execute(
        "SELECT id FROM editions WHERE collection = ? AND id IS NOT ?", (collection, kept)
    ).fetchall()
    for edition in editions:
        connection.execute(
            "DELETE FROM chunks WHERE document IN (SELECT id FROM documents WHERE edition = ?)",
            edition,
        )
        connection.execute("DELETE FROM documents WHERE edition = ?", edition)
        connection.execute("DELETE FROM passages WHERE edition = ?", edition)
        connection.execute("DELETE FROM editions WHERE id = ?", edition)


def _is_named(connection: sqlite3.Connection, collection: CollectionId, name: str) -> bool:
    asked = "SELECT 1 FROM collections WHERE id = ? AND name = ?"
    return connection.execute(asked, (collection, name)).fetchone() is not None
