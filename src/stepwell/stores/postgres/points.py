"""`PostgresPoints`: points that pgvector searches."""

import secrets
from collections.abc import Iterator, Mapping, Sequence

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Vector
from stepwell.stores.named import digest, named_by
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Connection
from stepwell.stores.postgres.schema import Schema

SESSION = {
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",
    "hnsw.ef_search": "100",
    "hnsw.iterative_scan": "relaxed_order",
}
"""Of each connection that searches. Whether a partition is scanned whole or found in the index is
decided by its size, so each search is planned for itself; and the index goes on until it has found
enough within the partition, so that neighbours elsewhere do not starve the search."""

BATCH = 1_000
"""Rows removed by one statement."""

_SPARE = 2
"""So many times as many are looked at as asked for: half precision may change their order."""


_NAMED = (
    "key = {}",
    "namespace = {}",
    "model = {}",
    "request_class = {}",
    "tags @> ARRAY[{}::bytea]",
)
"""What `named_by` names, in its order."""


class PostgresPoints:
    """A `PointServer` on PostgreSQL with pgvector. One event loop; safe for many tasks.

    Searches and all the rest have connections of their own, so that no search waits for a write.
    """

    def __init__(self, schema: Schema, searching: Database, writing: Database) -> None:
        """Do nothing until `start`. The databases are started and closed with this.

        Args:
            schema: What the tables are called.
            searching: For searches, whose time is short.
            writing: For all the rest; nobody waits for it.
        """
        self._schema = schema
        self._searching = searching
        self._writing = writing
        self._holder = secrets.token_bytes(8)
        self._search = search_statement(schema)
        self._add = add_statement(schema)

    async def start(self) -> None:
        """Connect, and make what is missing, or go on trying in the background.

        Raises:
            ConfigError: What no waiting mends.
        """
        await self._writing.start()
        await self._searching.start()

    @property
    def trouble(self) -> str:
        """As `PointServer.trouble`."""
        return self._searching.trouble or self._writing.trouble

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        """As `PointServer.search`. One query."""
        numbers = vector.tolist()

        async def ask(connection: Connection) -> Sequence[Candidate]:
            rows = await connection.fetch(self._search, partition, now, numbers, k * _SPARE, k)
            return [_candidate(*row) for row in rows]

        return await self._searching.run(ask)

    async def add(self, point: Point, vector: Vector) -> None:
        """As `PointServer.add`. One statement."""
        await self._write(self._add, *row_of(point, vector))

    async def remove(self, key: CacheKey) -> None:
        """As `PointServer.remove`."""
        await self._write(f"DELETE FROM {self._schema.points} WHERE key = $1", key)  # noqa: S608

    async def remove_where(self, selector: Selector, before: Position) -> None:
        """As `PointServer.remove_where`, a thousand at a time."""
        conditions: list[str] = ["position < $1"]
        values: list[object] = [before]
        for condition, value in _conditions(selector):
            values.append(value)
            conditions.append(condition.format(f"${len(values)}"))
        while await self._remove_some(" AND ".join(conditions), *values) == BATCH:
            pass

    async def remove_expired(self, now: float) -> None:
        """As `PointServer.remove_expired`: all, a thousand at a time."""
        while await self._remove_some("expires_at <= $1", now) == BATCH:
            pass

    async def _remove_some(self, condition: str, *values: object) -> int:
        points = self._schema.points
        tag = await self._write(
            f"DELETE FROM {points} WHERE key IN"  # noqa: S608  (nothing of it is a caller's)
            f" (SELECT key FROM {points} WHERE {condition} LIMIT {BATCH} FOR UPDATE SKIP LOCKED)",
            *values,
        )
        return int(tag.rpartition(" ")[2])

    async def expiries(self, keys: Sequence[CacheKey]) -> Mapping[CacheKey, float]:
        """As `PointServer.expiries`. One query."""
        query = f"SELECT key, expires_at FROM {self._schema.points} WHERE key = ANY($1)"  # noqa: S608

        async def ask(connection: Connection) -> Mapping[CacheKey, float]:
            return dict(await connection.fetch(query, list(keys)))

        return await self._writing.run(ask)

    async def lead(self, seconds: float) -> bool:
        """As `PointServer.lead`: a row that one holds until its time is over, by the server."""
        leases = self._schema.leases
        tag = await self._write(
            f"INSERT INTO {leases} AS held VALUES ($1, $2, now() + $3 * interval '1 second')"  # noqa: S608
            " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, ends_at = excluded.ends_at"
            " WHERE held.ends_at < now() OR held.holder = excluded.holder",
            self._schema.points,
            self._holder,
            seconds,
        )
        return tag.endswith(" 1")

    async def resign(self) -> None:
        """As `PointServer.resign`."""
        await self._write(
            f"DELETE FROM {self._schema.leases} WHERE name = $1 AND holder = $2",  # noqa: S608
            self._schema.points,
            self._holder,
        )

    async def aclose(self) -> None:
        """As `PointServer.aclose`."""
        await self._searching.aclose()
        await self._writing.aclose()

    async def _write(self, statement: str, *values: object) -> str:
        """Return what the server says was done: ``DELETE 5``."""

        async def tell(connection: Connection) -> str:
            return str(await connection.execute(statement, *values))

        return await self._writing.run(tell)


def search_statement(schema: Schema) -> str:
    """Return the query: near by the index, then in order by the vectors themselves."""
    return f"""
        WITH near AS MATERIALIZED (
            SELECT key, text, temperature, expires_at, position, vector
            FROM {schema.points}
            WHERE partition = $1 AND expires_at > $2
            ORDER BY vector::{schema.half} <=> $3::real[]::{schema.half}
            LIMIT $4
        )
        SELECT key, text, temperature, expires_at, position, vector <=> $3::real[]::vector
        FROM near ORDER BY 6 LIMIT $5
    """  # noqa: S608  (names are our own)


def row_of(point: Point, vector: Vector) -> tuple[object, ...]:
    """Return the values of a row, in the order of the table's columns."""
    return (
        point.key,
        point.partition,
        point.group.namespace,
        digest(point.group.model),
        digest(point.group.request_class),
        list(map(digest, point.tags)),
        point.text.encode(errors="surrogatepass"),
        point.temperature,
        point.expires_at,
        point.position,
        vector.tolist(),
    )


def add_statement(schema: Schema) -> str:
    """Return the statement that takes `row_of` a point."""
    return f"""
        INSERT INTO {schema.points} AS held VALUES
            ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::real[]::vector)
        ON CONFLICT (key) DO UPDATE SET
            tags = excluded.tags, expires_at = excluded.expires_at,
            position = excluded.position, vector = excluded.vector
        WHERE (held.position, held.expires_at) < (excluded.position, excluded.expires_at)
    """  # noqa: S608


def _conditions(selector: Selector) -> Iterator[tuple[str, bytes]]:
    """Yield what ``selector`` demands of a row."""
    for condition, value in zip(_NAMED, named_by(selector), strict=True):
        if value is not None:
            yield condition, value


def _candidate(
    key: bytes,
    text: bytes,
    temperature: float | None,
    expires_at: float,
    position: int,
    distance: float,
) -> Candidate:
    similarity = min(max(1.0 - distance, 0.0), 1.0)
    words = text.decode(errors="surrogatepass")
    return Candidate(CacheKey(key), words, temperature, expires_at, Position(position), similarity)
