"""What changes collections and editions: a transaction each. Functions of a connection.

Each begins with the collection's row, which makes changes of one collection follow one another:
so a text that one document gives up and another takes is neither lost nor left over.
"""

# ruff: noqa: S608  (only names of tables, our own, are put into statements)

import hashlib
import secrets
from collections.abc import Mapping, Sequence

import asyncpg

from stepwell.core.documents import (
    COLLECTION_BITS,
    Chunk,
    CollectionId,
    CollectionState,
    Document,
    Edition,
    Epoch,
    KnownChunk,
    Recipe,
)
from stepwell.core.embedding import ContentDigest
from stepwell.core.errors import EditionGone
from stepwell.core.vectors import Vector
from stepwell.stores.kinds import kind_to_json
from stepwell.stores.postgres.dialing import Connection
from stepwell.stores.postgres.documents.asking import collections_query, state_of
from stepwell.stores.postgres.documents.schema import BUILDING_MEMORY, DocumentSchema


async def edition(
    connection: Connection, schema: DocumentSchema, name: str, recipe: Recipe
) -> tuple[CollectionState, Edition]:
    """As `Library.edition`. Raises `ConfigError`: vectors of that width cannot be indexed."""
    kind = kind_to_json(recipe.kind)
    told = f"{recipe.chunker}\0{recipe.dimensions}\0{kind}"
    async with connection.transaction():
        await connection.execute(
            f"INSERT INTO {schema.collections} (id, name, epoch) VALUES ($1, $2, 0)"
            " ON CONFLICT (name) DO NOTHING",
            secrets.randbits(COLLECTION_BITS),
            name.encode(),
        )
        row = await connection.fetchrow(
            f"{collections_query(schema)} WHERE c.name = $1 FOR UPDATE OF c", name.encode()
        )
        if row is None:
            raise EditionGone(f"the collection {name!r} was dropped just now")
        state = state_of(tuple(row))
        made = await connection.fetchval(
            f"INSERT INTO {schema.editions} (collection, recipe, kind, dimensions, chunker)"
            " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING id",
            state.collection,
            (digest := hashlib.sha256(told.encode()).digest()),
            kind,
            recipe.dimensions,
            recipe.chunker,
        )
        if made is not None:
            await connection.execute(schema.edition_definition(Edition(made), recipe))
            return state, Edition(made)
        found = await connection.fetchval(
            f"SELECT id FROM {schema.editions} WHERE collection = $1 AND recipe = $2",
            state.collection,
            digest,
        )
    return state, Edition(found)


async def replace(
    connection: Connection,
    schema: DocumentSchema,
    edition: Edition,
    document: Document,
    vectors: Mapping[ContentDigest, Vector],
    known: Epoch,
) -> Sequence[KnownChunk] | None:
    """As `Library.replace`."""
    try:
        async with connection.transaction():
            epoch = await _advance(connection, schema, edition)
            before = await _expect(connection, schema, edition, document.name, known)
            identifier = await connection.fetchval(
                f"INSERT INTO {schema.documents(edition)}"
                " (name, epoch, content, metadata, updated_at)"
                " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) DO UPDATE SET"
                " epoch = excluded.epoch, content = excluded.content,"
                " metadata = excluded.metadata, updated_at = excluded.updated_at RETURNING id",
                document.name.encode(),
                epoch,
                document.content,
                document.metadata.encode(),
                document.updated_at,
            )
            old = [] if before is None else await _take_chunks(connection, schema, edition, before)
            await _make_chunks(connection, schema, edition, identifier, document.chunks, vectors)
            return await _remove_orphans(connection, schema, edition, old)
    except _Lost:
        return None


async def annotate(
    connection: Connection,
    schema: DocumentSchema,
    edition: Edition,
    name: str,
    metadata: str,
    known: Epoch,
) -> bool:
    """As `Library.annotate`."""
    try:
        async with connection.transaction():
            epoch = await _advance(connection, schema, edition)
            document = await _expect(connection, schema, edition, name, known)
            await connection.execute(
                f"UPDATE {schema.documents(edition)} SET epoch = $1, metadata = $2 WHERE id = $3",
                epoch,
                metadata.encode(),
                document,
            )
    except _Lost:
        return False
    return True


async def remove(
    connection: Connection, schema: DocumentSchema, edition: Edition, name: str, known: Epoch
) -> Sequence[KnownChunk] | None:
    """As `Library.remove`."""
    try:
        async with connection.transaction():
            await _advance(connection, schema, edition)
            document = await _expect(connection, schema, edition, name, known)
            if document is None:
                return []
            old = await _take_chunks(connection, schema, edition, document)
            await connection.execute(
                f"DELETE FROM {schema.documents(edition)} WHERE id = $1",
                document,
            )
            return await _remove_orphans(connection, schema, edition, old)
    except _Lost:
        return None


async def index(connection: Connection, schema: DocumentSchema, edition: Edition) -> None:
    """Build the index of an edition that is to be searched. A minute for 100,000 passages."""
    async with connection.transaction():
        # Two that serve it at once: one builds.
        await connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext($1))", schema.passages(edition)
        )
        await connection.execute(f"SET LOCAL maintenance_work_mem = '{BUILDING_MEMORY}'")
        await connection.execute(schema.index_definition(edition))
    await connection.execute(f"ANALYZE {schema.passages(edition)}, {schema.chunks(edition)}")


async def serve(
    connection: Connection, schema: DocumentSchema, collection: CollectionId, edition: Edition
) -> None:
    """Search an edition that is indexed, and drop all others of the collection."""
    async with connection.transaction():
        served = await connection.fetchval(
            f"UPDATE {schema.collections} SET serving = $1,"
            " epoch = epoch + (serving IS DISTINCT FROM $1)::int"
            f" WHERE id = $2 AND EXISTS (SELECT FROM {schema.editions} WHERE id = $1) RETURNING id",
            edition,
            collection,
        )
        if served is None:
            raise EditionGone("the documents were dropped, or are made anew by another run")
        await _drop_editions(connection, schema, collection, edition)


async def rename(
    connection: Connection, schema: DocumentSchema, collection: CollectionId, name: str
) -> bool:
    """As `Library.rename`."""
    try:
        found = await connection.fetchval(
            f"UPDATE {schema.collections} SET name = $1, epoch = epoch + (name <> $1)::int"
            " WHERE id = $2 RETURNING id",
            name.encode(),
            collection,
        )
    except asyncpg.UniqueViolationError:
        return False
    if found is None:
        raise EditionGone("the collection was dropped")
    return True


async def drop(connection: Connection, schema: DocumentSchema, collection: CollectionId) -> None:
    """As `Library.drop`."""
    async with connection.transaction():
        await connection.execute(
            f"SELECT FROM {schema.collections} WHERE id = $1 FOR UPDATE",
            collection,
        )
        await _drop_editions(connection, schema, collection, None)
        await connection.execute(
            f"DELETE FROM {schema.collections} WHERE id = $1",
            collection,
        )


class _Lost(Exception):
    """Another was faster; the transaction is undone."""


async def _advance(connection: Connection, schema: DocumentSchema, edition: Edition) -> int:
    """Return the epoch that a change makes, and is noted under; holds the collection."""
    epoch = await connection.fetchval(
        f"UPDATE {schema.collections} SET epoch = epoch + 1"
        f" WHERE id = (SELECT collection FROM {schema.editions} WHERE id = $1) RETURNING epoch",
        edition,
    )
    if epoch is None:
        raise EditionGone("the documents were dropped, or are made anew by another run")
    return int(epoch)


async def _expect(
    connection: Connection, schema: DocumentSchema, edition: Edition, name: str, known: Epoch
) -> int | None:
    """Return the id of a document that still has the epoch that is known, if there is one."""
    row = await connection.fetchrow(
        f"SELECT id, epoch FROM {schema.documents(edition)} WHERE name = $1",
        name.encode(),
    )
    document, epoch = (None, 0) if row is None else row
    if epoch != known:
        raise _Lost
    return document


async def _make_chunks(
    connection: Connection,
    schema: DocumentSchema,
    edition: Edition,
    document: int,
    chunks: Sequence[Chunk],
    vectors: Mapping[ContentDigest, Vector],
) -> None:
    """Put in a document's chunks, and those texts that the edition lacks."""
    texts = {chunk.digest: chunk.text for chunk in chunks if chunk.digest in vectors}
    if texts:
        await connection.executemany(
            f"INSERT INTO {schema.passages(edition)} (digest, text, vector)"
            " VALUES ($1, $2, $3::real[]::halfvec) ON CONFLICT DO NOTHING",
            [(digest, text.encode(), vectors[digest].tolist()) for digest, text in texts.items()],
        )
    found = await connection.fetch(
        f"SELECT digest, id FROM {schema.passages(edition)} WHERE digest = ANY($1)",
        list({chunk.digest for chunk in chunks}),
    )
    passages = dict(map(tuple, found))
    if any(chunk.digest not in passages for chunk in chunks):
        raise _Lost  # Another document had it, and has it no more.
    await connection.execute(
        f"INSERT INTO {schema.chunks(edition)} SELECT $1, *"
        " FROM unnest($2::integer[], $3::bigint[], $4::integer[])",
        document,
        list(range(len(chunks))),
        [passages[chunk.digest] for chunk in chunks],
        [chunk.start for chunk in chunks],
    )


async def _take_chunks(
    connection: Connection, schema: DocumentSchema, edition: Edition, document: int
) -> list[int]:
    """Remove a document's chunks; return the passages they had."""
    rows = await connection.fetch(
        f"DELETE FROM {schema.chunks(edition)} WHERE document = $1 RETURNING passage",
        document,
    )
    return list({passage for (passage,) in rows})


async def _remove_orphans(
    connection: Connection, schema: DocumentSchema, edition: Edition, passages: Sequence[int]
) -> list[KnownChunk]:
    """Remove those passages that no chunk has any more; return them."""
    rows = await connection.fetch(
        f"DELETE FROM {schema.passages(edition)} p WHERE id = ANY($1)"
        f" AND NOT EXISTS (SELECT FROM {schema.chunks(edition)} WHERE passage = p.id)"
        " RETURNING digest, text",
        list(passages),
    )
    return [KnownChunk(digest, text.decode()) for digest, text in rows]


async def _drop_editions(
    connection: Connection,
    schema: DocumentSchema,
    collection: CollectionId,
    kept: Edition | None,
) -> None:
    rows = await connection.fetch(
        f"DELETE FROM {schema.editions} WHERE collection = $1 AND id IS DISTINCT FROM $2"
        " RETURNING id",
        collection,
        kept,
    )
    for (edition,) in rows:
        await connection.execute(schema.drop_statement(Edition(edition)))
