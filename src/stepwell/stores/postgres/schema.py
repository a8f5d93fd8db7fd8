"""The tables: one of points for each embedder, one of leases.

A point's namespace, model, class and tags stand there for invalidations: texts as digests, as in
Redis. The vector is kept whole, so that similarities are exact; the index over it has half
precision, at half the size. Vectors of two embedders are never in one table.
"""

from dataclasses import dataclass
from hashlib import blake2b

import asyncpg

from stepwell.core.errors import ConfigError
from stepwell.stores.postgres.dialing import Connection

MAX_DIMENSIONS = 4_000
"""What an HNSW index of pgvector takes, in half precision."""

_NAME_BYTES = 8
_HNSW = "m = 16, ef_construction = 64"

_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"

_NO_VECTORS = (
    "stores.postgres: the server has no pgvector {why}; install it there (0.8 or newer), let"
    ' CREATE EXTENSION vector be run by who may, or set semantic.index.kind = "own"'
)


@dataclass(frozen=True, slots=True)
class Schema:
    """Names and definitions for one embedder."""

    prefix: str
    model_id: str
    dimensions: int

    def __post_init__(self) -> None:
        """Raise `ConfigError` for vectors that cannot be indexed."""
        if self.dimensions > MAX_DIMENSIONS:
            raise ConfigError(
                f"semantic.index.kind is 'postgres', and the embedder's vectors have"
                f" {self.dimensions} dimensions; allowed: up to {MAX_DIMENSIONS}"
            )

    @property
    def points(self) -> str:
        """Name of the table of points."""
        model = blake2b(self.model_id.encode(), digest_size=_NAME_BYTES).hexdigest()
        return f"{self.prefix}_points_{model}_{self.dimensions}"

    @property
    def leases(self) -> str:
        """Name of the table of leases."""
        return f"{self.prefix}_leases"

    @property
    def half(self) -> str:
        """The type that vectors are searched in."""
        return f"halfvec({self.dimensions})"

    async def prepare(self, connection: Connection) -> None:
        """Make what is missing. One round trip where nothing is.

        Raises:
            ConfigError: The server has no pgvector, or an old one, or we may not make tables.
        """
        await make_tables(connection, self.points, self._definition(), lock=self.prefix)

    def _definition(self) -> str:
        points = self.points
        return f"""
            CREATE TABLE IF NOT EXISTS {self.leases} (
                name text PRIMARY KEY,
                holder bytea NOT NULL,
                ends_at timestamptz NOT NULL
            );
            CREATE TABLE IF NOT EXISTS {points} (
                key bytea PRIMARY KEY,
                partition bytea NOT NULL,
                namespace bytea NOT NULL,
                model bytea NOT NULL,
                request_class bytea NOT NULL,
                tags bytea[] NOT NULL,
                text bytea NOT NULL,
                temperature float8,
                expires_at float8 NOT NULL,
                position bigint NOT NULL,
                vector vector({self.dimensions}) NOT NULL
            );
            CREATE INDEX IF NOT EXISTS {points}_near ON {points}
                USING hnsw ((vector::{self.half}) halfvec_cosine_ops) WITH ({_HNSW});
            CREATE INDEX IF NOT EXISTS {points}_part ON {points} (partition);
            CREATE INDEX IF NOT EXISTS {points}_whose ON {points} (namespace);
            CREATE INDEX IF NOT EXISTS {points}_ends ON {points} (expires_at);
            CREATE INDEX IF NOT EXISTS {points}_tags ON {points} USING gin (tags);
        """


async def make_tables(connection: Connection, table: str, definition: str, *, lock: str) -> None:
    """Make tables with vectors, and the extension these need, unless ``table`` is there.

    Args:
        connection: To the database.
        table: One of them. One round trip where it is there.
        definition: Statements that make all.
        lock: Names what of several who start only one may do at a time.

    Raises:
        ConfigError: The server has no pgvector, or an old one, or we may not make tables.
    """
    if await connection.fetchval("SELECT to_regclass($1)", table) is not None:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext($1))", lock)
        await _make_extension(connection)
        await connection.execute(definition)


async def _make_extension(connection: Connection) -> None:
    """Make sure of pgvector. Raises `ConfigError`: there is none, or an old one."""
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (asyncpg.FeatureNotSupportedError, asyncpg.UndefinedFileError) as error:
        raise ConfigError(_NO_VECTORS.format(why="installed")) from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise ConfigError(_NO_VECTORS.format(why="in this database")) from error
    version = await connection.fetchval(
        "SELECT extversion FROM pg_extension WHERE extname='vector'"
    )
    if tuple(map(int, version.split(".")[:2])) < (0, 8):
        raise ConfigError(_NO_VECTORS.format(why=f"but {version}"))
