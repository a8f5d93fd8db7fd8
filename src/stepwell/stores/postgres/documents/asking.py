"""What is asked of collections and editions, and changes nothing. Functions of a connection."""

# ruff: noqa: S608  (only names of tables, our own, are put into statements)

import hashlib
from collections.abc import Sequence

from stepwell.core.documents import (
    CollectionId,
    CollectionState,
    DocumentState,
    Edition,
    EditionFigures,
    Epoch,
    KnownChunk,
    Passage,
    Recipe,
)
from stepwell.core.embedding import ContentDigest
from stepwell.core.vectors import Vector
from stepwell.stores.kinds import kind_from_json
from stepwell.stores.postgres.dialing import Connection
from stepwell.stores.postgres.documents.schema import DocumentSchema

_SPARE = 2
"""So many times as many are looked at as asked for: an index's order is nearly right."""


def collections_query(schema: DocumentSchema) -> str:
    """Return the query of all collections, for `state_of`."""
    return f"""
        SELECT c.id, c.name, c.epoch, c.serving, e.kind, e.dimensions, e.chunker
        FROM {schema.collections} c LEFT JOIN {schema.editions} e ON e.id = c.serving
    """


def state_of(row: Sequence[object]) -> CollectionState:
    """Return the collection that a row of `collections_query` is about. Raises `OtherVersion`."""
    match row:
        case (int(found), bytes(name), int(epoch), serving, kind, dimensions, chunker):
            recipe = None
            if isinstance(kind, str) and isinstance(dimensions, int) and isinstance(chunker, str):
                recipe = Recipe(kind_from_json(kind), dimensions, chunker)
            edition = Edition(serving) if isinstance(serving, int) else None
            return CollectionState(
                CollectionId(found), name.decode(), Epoch(epoch), edition, recipe
            )
    raise TypeError(f"no row of a collection: {row}")


async def collections(connection: Connection, schema: DocumentSchema) -> Sequence[CollectionState]:
    """As `Library.collections`."""
    rows = await connection.fetch(f"{collections_query(schema)} ORDER BY c.name")
    return [state_of(tuple(row)) for row in rows]


async def collection(
    connection: Connection, schema: DocumentSchema, name: str
) -> CollectionState | None:
    """As `Library.collection`."""
    row = await connection.fetchrow(f"{collections_query(schema)} WHERE c.name = $1", name.encode())
    return None if row is None else state_of(tuple(row))


async def document(
    connection: Connection, schema: DocumentSchema, edition: Edition, name: str
) -> DocumentState | None:
    """As `Library.document`."""
    row = await connection.fetchrow(
        f"SELECT epoch, content, metadata FROM {schema.documents(edition)} WHERE name = $1",
        name.encode(),
    )
    return None if row is None else _document_state(*row)


async def figures(
    connection: Connection, schema: DocumentSchema, edition: Edition
) -> EditionFigures:
    """As `Library.figures`. Counts rows."""
    counts = await connection.fetchrow(
        f"SELECT (SELECT count(*) FROM {schema.documents(edition)}),"
        f" (SELECT count(*) FROM {schema.passages(edition)})"
    )
    return EditionFigures(*counts)


async def documents_after(
    connection: Connection, schema: DocumentSchema, edition: Edition, name: str | None, at_most: int
) -> Sequence[tuple[str, DocumentState]]:
    """Return some documents whose names come after ``name``, by name."""
    rows = await connection.fetch(
        f"SELECT name, epoch, content, metadata FROM {schema.documents(edition)}"
        " WHERE $1::bytea IS NULL OR name > $1 ORDER BY name LIMIT $2",
        None if name is None else name.encode(),
        at_most,
    )
    return [(name.decode(), _document_state(*state)) for name, *state in rows]


async def chunks_after(
    connection: Connection, schema: DocumentSchema, edition: Edition, passage: int, at_most: int
) -> Sequence[tuple[int, KnownChunk]]:
    """Return some passages with larger ids than ``passage``, by id."""
    rows = await connection.fetch(
        f"SELECT id, digest, text FROM {schema.passages(edition)}"
        " WHERE id > $1 ORDER BY id LIMIT $2",
        passage,
        at_most,
    )
    return [(found, KnownChunk(digest, text.decode())) for found, digest, text in rows]


async def known(
    connection: Connection,
    schema: DocumentSchema,
    edition: Edition,
    digests: Sequence[ContentDigest],
) -> frozenset[ContentDigest]:
    """Return which of ``digests`` the edition has a vector of."""
    rows = await connection.fetch(
        f"SELECT digest FROM {schema.passages(edition)} WHERE digest = ANY($1)",
        list(digests),
    )
    return frozenset(ContentDigest(digest) for (digest,) in rows)


async def used(
    connection: Connection, schema: DocumentSchema, digests: Sequence[ContentDigest]
) -> frozenset[ContentDigest]:
    """As `Library.used`. A query for each edition; dropping one waits for it."""
    found: frozenset[ContentDigest] = frozenset()
    async with connection.transaction():
        editions = await connection.fetch(
            f"SELECT e.id FROM {schema.collections} c"
            f" JOIN {schema.editions} e ON e.collection = c.id FOR SHARE"
        )
        for (edition,) in editions:
            found |= await known(connection, schema, Edition(edition), digests)
    return found


async def nearest(
    connection: Connection, schema: DocumentSchema, edition: Edition, vector: Vector, k: int
) -> Sequence[Passage]:
    """As `Library.nearest`. One query."""
    rows = await connection.fetch(
        nearest_query(schema, edition, len(vector)), vector.tolist(), k * _SPARE, k
    )
    return [_passage(*row) for row in rows]


def nearest_query(schema: DocumentSchema, edition: Edition, dimensions: int) -> str:
    """Return the query: near by the index, then in order, each as of one document."""
    return f"""
        WITH near AS MATERIALIZED (
            SELECT id, digest, text, vector <=> $1::real[]::halfvec({dimensions:d}) AS distance
            FROM {schema.passages(edition)}
            ORDER BY vector <=> $1::real[]::halfvec({dimensions:d}) LIMIT $2
        )
        SELECT found.name, near.digest, near.text, found.start, near.distance,
            found.metadata, found.updated_at
        FROM near CROSS JOIN LATERAL (
            SELECT d.name, c.start, d.metadata, d.updated_at
            FROM {schema.chunks(edition)} c JOIN {schema.documents(edition)} d ON d.id = c.document
            WHERE c.passage = near.id ORDER BY d.updated_at DESC, d.name, c.number LIMIT 1
        ) found
        ORDER BY near.distance, near.id LIMIT $3
    """


def _document_state(epoch: int, content: bytes, metadata: bytes) -> DocumentState:
    return DocumentState(Epoch(epoch), content, hashlib.sha256(metadata).digest())


def _passage(
    name: bytes,
    digest: bytes,
    text: bytes,
    start: int,
    distance: float,
    metadata: bytes,
    updated_at: float,
) -> Passage:
    similarity = min(max(1.0 - distance, -1.0), 1.0)
    return Passage(
        name.decode(),
        ContentDigest(digest),
        text.decode(),
        start,
        similarity,
        metadata.decode(),
        updated_at,
    )
