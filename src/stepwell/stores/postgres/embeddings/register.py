"""Versions come and go."""

from collections.abc import Mapping, Sequence

import asyncpg

from stepwell.core.embedding import VectorKind, VersionFigures
from stepwell.core.errors import StoreFull, VersionTaken
from stepwell.stores.kinds import kind_from_json, kind_to_json
from stepwell.stores.postgres.dialing import Connection
from stepwell.stores.postgres.embeddings import statements
from stepwell.stores.postgres.embeddings.schema import EmbeddingSchema
from stepwell.stores.uses import DAY_SECONDS

_COUNTED = 1_000_000
"""Vectors of a version that are counted; of more, a sample of the pages is."""


async def register(
    connection: Connection, schema: EmbeddingSchema, kind: VectorKind, at_most: int, now: float
) -> None:
    """Make a version's partition, unless it is there.

    Raises:
        StoreFull: There are ``at_most`` versions.
        VersionTaken: Another kind has the same name.
    """
    if await _is_known(connection, schema, kind):
        return
    async with connection.transaction():
        # Of several gateways that meet a new version, one makes room for it.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", schema.lock())
        if await _is_known(connection, schema, kind):
            return
        count = await connection.fetchval(f"SELECT count(*) FROM {schema.versions}")  # noqa: S608
        if count >= at_most:
            raise StoreFull(f"there are {count} versions, and {at_most} are allowed: retire one")
        number = await connection.fetchval(
            f"INSERT INTO {schema.versions} (name, fingerprint, kind, created_at, since)"  # noqa: S608
            f" SELECT $1, $2, $3, $4, deletions FROM {schema.deletions} RETURNING number",
            *(kind.version, kind.fingerprint, kind_to_json(kind), now),
        )
        await connection.execute(schema.partition_definition(kind.version, number))


async def retire(connection: Connection, schema: EmbeddingSchema, version: str) -> None:
    """Drop a version's partition; what was begun for it is refused if it comes back."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", schema.lock())
        await connection.execute("SELECT pg_advisory_xact_lock($1)", schema.lock(version))
        await connection.execute(
            f"UPDATE {schema.deletions} SET deletions = deletions + 1"  # noqa: S608
        )
        await connection.execute(
            f"DELETE FROM {schema.versions} WHERE name = $1",  # noqa: S608
            version,
        )
        await connection.execute(f"DROP TABLE IF EXISTS {schema.partition(version)}")


async def figures(connection: Connection, schema: EmbeddingSchema) -> Sequence[VersionFigures]:
    """Return all versions, newest first. Reads the rows of each, but not their values."""
    rows = await connection.fetch(
        f"SELECT name, kind, created_at FROM {schema.versions} ORDER BY number DESC"  # noqa: S608
    )
    found = []
    for name, kind, created_at in rows:
        rows_there = await connection.fetchval(
            "SELECT reltuples FROM pg_class WHERE oid = to_regclass($1)", schema.partition(name)
        )
        share = 1.0 if rows_there is None else min(1.0, _COUNTED / max(rows_there, 1.0))
        try:
            counted = await connection.fetchrow(statements.figures(schema, name, share))
        except asyncpg.UndefinedTableError:
            continue  # It was retired meanwhile.
        vectors, with_text, used_day, size_bytes = counted
        found.append(
            VersionFigures(
                kind=kind_from_json(kind),
                vectors=round(vectors / share),
                bytes=size_bytes,
                with_text=round(with_text / share),
                created_at=created_at,
                used_at=created_at if used_day is None else float(used_day * DAY_SECONDS),
            )
        )
    return found


async def are_known(
    connection: Connection, schema: EmbeddingSchema, *versions: str
) -> frozenset[str]:
    """Return which of ``versions`` are registered."""
    rows = await connection.fetch(
        f"SELECT name FROM {schema.versions} WHERE name = ANY($1)",  # noqa: S608
        versions,
    )
    return frozenset(name for (name,) in rows)


async def canaries(
    connection: Connection, schema: EmbeddingSchema, version: str
) -> Mapping[str, bytes]:
    """Return canaries by text."""
    rows = await connection.fetch(
        f"SELECT text, value FROM {schema.canaries} WHERE version ="  # noqa: S608
        f" (SELECT number FROM {schema.versions} WHERE name = $1)",
        version,
    )
    return {text.decode(): value for text, value in rows}


async def keep_canaries(
    connection: Connection, schema: EmbeddingSchema, version: str, values: Mapping[str, bytes]
) -> None:
    """Keep canaries, unless there are some."""
    async with connection.transaction():
        number = await connection.fetchval(
            f"SELECT number FROM {schema.versions} WHERE name = $1 FOR UPDATE",  # noqa: S608
            version,
        )
        if number is not None:
            await connection.execute(
                f"INSERT INTO {schema.canaries}"  # noqa: S608
                " SELECT $1, * FROM unnest($2::bytea[], $3::bytea[])"
                f" WHERE NOT EXISTS (SELECT FROM {schema.canaries} WHERE version = $1)",
                *(number, [text.encode() for text in values], list(values.values())),
            )


async def _is_known(connection: Connection, schema: EmbeddingSchema, kind: VectorKind) -> bool:
    fingerprint = await connection.fetchval(
        f"SELECT fingerprint FROM {schema.versions} WHERE name = $1",  # noqa: S608
        kind.version,
    )
    if fingerprint not in {None, kind.fingerprint}:
        raise VersionTaken(f"version {kind.version} is that of another kind of vectors")
    return fingerprint is not None
