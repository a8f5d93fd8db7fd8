"""`PostgresEmbeddings`: the full store of vectors that machines share."""

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from stepwell.core.clock import Clock
from stepwell.core.embedding import (
    ContentDigest,
    Deletions,
    Found,
    Item,
    KnownText,
    VectorKind,
    VersionFigures,
)
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Connection
from stepwell.stores.postgres.embeddings import register, statements
from stepwell.stores.postgres.embeddings.schema import EmbeddingSchema
from stepwell.stores.uses import DAY_SECONDS, Uses, day_of

T = TypeVar("T")
Rows: TypeAlias = Sequence[Any]
"""Of `asyncpg.Record`, which comes without types."""

SESSION: Final = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}
"""Of each connection that reads: there is one way to find a digest, whatever the server knows of a
partition that was made a moment ago."""

_HOLDER_BYTES: Final = 8


class PostgresEmbeddings:
    """As `stepwell.core.embedding.FullStore` and `Claims`, on PostgreSQL.

    A get is one prepared statement over the binary protocol. Reads and claims, whose time is short,
    and all the rest have connections of their own. What was acknowledged outlives the server. One
    event loop; safe for many tasks.
    """

    tier: Final = "postgres"

    def __init__(
        self, schema: EmbeddingSchema, reading: Database, writing: Database, *, clock: Clock
    ) -> None:
        """Do nothing until `start`. The databases are started and closed with this.

        Args:
            schema: What the tables are called.
            reading: For `get` and claims; best with `SESSION`.
            writing: For all the rest.
            clock: For the day of uses.
        """
        self._schema = schema
        self._reading = reading
        self._writing = writing
        self._clock = clock
        self._holder = secrets.token_bytes(_HOLDER_BYTES)
        self._uses = Uses(self._write_uses, clock)

    async def start(self) -> None:
        """Connect, and make what is missing, or go on trying in the background.

        Raises:
            ConfigError: What no waiting mends.
        """
        await self._writing.start()
        await self._reading.start()

    @property
    def trouble(self) -> str:
        """Why it is not, or not wholly, used just now; empty if it is."""
        return self._reading.trouble or self._writing.trouble

    async def get(self, version: str, digests: Sequence[ContentDigest]) -> Found:
        """As `EmbeddingStore.get`. One query."""
        statement = statements.get(self._schema, version)
        asked = list(digests)

        async def ask(connection: Connection) -> Found:
            rows = await _fetch(connection, statement, asked)
            if rows is None:
                return Found({}, await self._deletions(connection))
            values = {ContentDigest(digest): value for _, digest, value in rows if digest}
            return Found(values, Deletions(rows[0][0]))

        found = await self._reading.run(ask)
        self._uses.note(version, found.values)
        return found

    async def put(
        self, version: str, items: Sequence[Item], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """As `EmbeddingStore.put`. One transaction, in three round trips."""
        if not items:
            return frozenset()
        ordered = sorted(items)
        texts = [None if item.text is None else item.text.encode() for item in ordered]
        values = (
            version,
            [item.digest for item in ordered],
            [item.value for item in ordered],
            texts,
            deletions,
            day_of(self._clock),
        )

        async def keep(connection: Connection) -> Collection[ContentDigest]:
            # A statement of its own: what the next one sees is then decided with the lock in hand.
            lock = f"SELECT pg_advisory_xact_lock_shared({self._schema.lock(version)})"
            rows = await _locked(connection, lock, statements.put(self._schema, version), *values)
            if rows is None:
                return frozenset(item.digest for item in items)
            return frozenset(ContentDigest(digest) for (digest,) in rows)

        return await self._writing.run(keep)

    async def delete(self, version: str, digests: Sequence[ContentDigest]) -> int:
        """As `EmbeddingStore.delete`. One transaction; waits for puts under way, not for reads."""

        async def remove(connection: Connection) -> int:
            lock = f"SELECT pg_advisory_xact_lock({self._schema.lock(version)})"
            statement = statements.delete(self._schema, version)
            rows = await _locked(connection, lock, statement, version, list(set(digests)))
            await connection.execute(statements.forget_deleted(self._schema))
            return 0 if rows is None else int(rows[0][0])

        return await self._writing.run(remove)

    async def retire(self, version: str) -> None:
        """As `EmbeddingStore.retire`: at once, by dropping the partition."""
        await self._write(register.retire, version)

    async def register(self, kind: VectorKind, *, at_most: int) -> None:
        """As `FullStore.register`."""
        await self._write(register.register, kind, at_most, self._clock.now())

    def touch(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `FullStore.touch`."""
        self._uses.note(version, digests)

    async def versions(self) -> Sequence[VersionFigures]:
        """As `FullStore.versions`."""
        return await self._write(register.figures)

    async def canaries(self, version: str) -> Mapping[str, bytes]:
        """As `FullStore.canaries`."""
        return await self._write(register.canaries, version)

    async def keep_canaries(self, version: str, values: Mapping[str, bytes]) -> None:
        """As `FullStore.keep_canaries`."""
        await self._write(register.keep_canaries, version, values)

    async def unfilled(self, old: str, new: str, at_most: int) -> Sequence[KnownText]:
        """As `FullStore.unfilled`. Looks through all of ``old``: ask for many at a time."""

        async def ask(connection: Connection) -> Sequence[KnownText]:
            known = await register.are_known(connection, self._schema, old, new)
            if old not in known:
                return []
            statement = statements.unfilled(self._schema, old, new if new in known else None)
            return [
                KnownText(ContentDigest(digest), text.decode(), float(day * DAY_SECONDS))
                for digest, text, day in await _fetch(connection, statement, at_most) or ()
            ]

        return await self._writing.run(ask)

    async def covered(self, old: str, new: str) -> int:
        """As `FullStore.covered`. Looks through all of ``old``."""
        statement = statements.covered(self._schema, old, new)

        async def ask(connection: Connection) -> int:
            rows = await _fetch(connection, statement)
            return 0 if rows is None else int(rows[0][0])

        return await self._writing.run(ask)

    async def sample(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """As `FullStore.sample`."""
        statement = statements.sample(self._schema, version)

        async def ask(connection: Connection) -> Sequence[ContentDigest]:
            rows = await _fetch(connection, statement, secrets.token_bytes(32), at_most)
            return [ContentDigest(digest) for (digest,) in rows or ()]

        return await self._writing.run(ask)

    async def deleted(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """As `FullStore.deleted`: those of the last hour."""
        statement = statements.deleted(self._schema)

        async def ask(connection: Connection) -> Sequence[ContentDigest]:
            rows = await connection.fetch(statement, version, at_most)
            return [ContentDigest(digest) for (digest,) in rows]

        return await self._writing.run(ask)

    async def claim(
        self, version: str, digests: Sequence[ContentDigest], milliseconds: int
    ) -> Collection[ContentDigest]:
        """As `Claims.claim`. One statement."""
        statement = statements.claim(self._schema)
        asked = list(set(digests))

        async def ask(connection: Connection) -> Collection[ContentDigest]:
            rows = await connection.fetch(statement, version, asked, self._holder, milliseconds)
            return frozenset(ContentDigest(digest) for (digest,) in rows)

        return await self._reading.run(ask)

    async def release(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `Claims.release`. One statement."""
        statement = statements.release(self._schema)

        async def ask(connection: Connection) -> None:
            await connection.execute(statement, version, list(digests), self._holder)

        await self._writing.run(ask)

    async def aclose(self) -> None:
        """As `EmbeddingStore.aclose`. Uses that were noted are written."""
        await self._uses.aclose()
        await self._reading.aclose()
        await self._writing.aclose()

    async def _write(self, work: Callable[..., Awaitable[T]], *arguments: object) -> T:
        return await self._writing.run(
            lambda connection: work(connection, self._schema, *arguments)
        )

    async def _deletions(self, connection: Connection) -> Deletions:
        told = await connection.fetchval(f"SELECT deletions FROM {self._schema.deletions}")  # noqa: S608
        return Deletions(told)

    async def _write_uses(self, version: str, digests: Sequence[ContentDigest], day: int) -> None:
        statement = statements.note_uses(self._schema, version)

        async def note(connection: Connection) -> None:
            await _fetch(connection, statement, digests, day)

        await self._writing.run(note)


async def _fetch(connection: Connection, statement: str, *values: object) -> Rows | None:
    """Return what a statement returns; ``None``: the version has no partition, or not any more."""
    try:
        rows: Rows = await connection.fetch(statement, *values)
    except asyncpg.UndefinedTableError:
        return None
    return rows


async def _locked(
    connection: Connection, lock: str, statement: str, *values: object
) -> Rows | None:
    """As `_fetch`, in a transaction that holds a lock."""
    await connection.execute(f"BEGIN; {lock}")
    try:
        rows = await _fetch(connection, statement, *values)
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("ROLLBACK" if rows is None else "COMMIT")
    return rows
