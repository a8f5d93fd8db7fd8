"""The tables: one partition of vectors for each version, and what is known about all of them.

    <prefix>_embedding_versions    the register
    <prefix>_embeddings            list-partitioned by the number of the version
    <prefix>_embeddings_<hash>     a partition; its comment is the name of the version
    <prefix>_embedding_deletions   one row: how many there were
    <prefix>_embedding_deleted     which digests, for an hour
    <prefix>_embedding_canaries
    <prefix>_embedding_claims      unlogged: after a crash nobody computes anything

Values stand out of line, as they are, uncompressed: noting a use then rewrites 100 bytes and not
6 KB, and looking through all rows reads only those. Statements name the partition and not the
table over it, so that their plans and locks know nothing of other versions.
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from stepwell.stores.postgres.dialing import Connection

_REMEMBERED = (
    "SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') = 'off'"
)

_HASH_BYTES = 8
_LOCK_BYTES = 8


@dataclass(frozen=True, slots=True)
class EmbeddingSchema:
    """Names and definitions of a deployment."""

    prefix: str
    """``[a-z][a-z0-9_]*``, at most 24 characters: it stands in statements as it is."""

    @property
    def versions(self) -> str:
        """Name of the register."""
        return f"{self.prefix}_embedding_versions"

    @property
    def vectors(self) -> str:
        """Name of the table over all partitions."""
        return f"{self.prefix}_embeddings"

    @property
    def deletions(self) -> str:
        """Name of the table with the count of deletions."""
        return f"{self.prefix}_embedding_deletions"

    @property
    def deleted(self) -> str:
        """Name of the table of what was deleted."""
        return f"{self.prefix}_embedding_deleted"

    @property
    def canaries(self) -> str:
        """Name of the table of canaries."""
        return f"{self.prefix}_embedding_canaries"

    @property
    def claims(self) -> str:
        """Name of the table of claims."""
        return f"{self.prefix}_embedding_claims"

    def partition(self, version: str) -> str:
        """Return the name of a version's partition, which may not be there."""
        return f"{self.vectors}_{_hash(version)}"

    def lock(self, version: str = "") -> int:
        """Return the number of an advisory lock: of a version's vectors, or of the register."""
        named = f"{self.prefix}:{version}".encode()
        return int.from_bytes(blake2b(named, digest_size=_LOCK_BYTES).digest(), signed=True)

    async def prepare(self, connection: Connection) -> None:
        """Make what is missing. Two round trips where nothing is."""
        # A server may be set to forget its last commits in a crash, when Redis has them already.
        await connection.execute(_REMEMBERED)
        if await connection.fetchval("SELECT to_regclass($1)", self.claims) is not None:
            return
        async with connection.transaction():
            # Of several gateways that start, one makes them.
            await connection.execute("SELECT pg_advisory_xact_lock($1)", self.lock())
            await connection.execute(self._definition())

    def partition_definition(self, version: str, number: int) -> str:
        """Return the statements that make a partition.

        Made apart and then attached: that waits for nobody who reads or writes other versions.
        """
        name = self.partition(version)
        return f"""
            CREATE TABLE {name} (LIKE {self.vectors} INCLUDING STORAGE, PRIMARY KEY (digest))
                WITH (toast_tuple_target = 128, fillfactor = 90);
            ALTER TABLE {name} ALTER COLUMN version SET DEFAULT {number};
            COMMENT ON TABLE {name} IS '{version.replace("'", "''")}';
            ALTER TABLE {self.vectors} ATTACH PARTITION {name} FOR VALUES IN ({number});
        """

    def _definition(self) -> str:
        return f"""
            CREATE TABLE IF NOT EXISTS {self.versions} (
                number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                name text NOT NULL UNIQUE,
                fingerprint bytea NOT NULL,
                kind text NOT NULL,
                created_at float8 NOT NULL,
                since bigint NOT NULL
            );
            CREATE TABLE IF NOT EXISTS {self.vectors} (
                version int NOT NULL,
                digest bytea NOT NULL,
                value bytea NOT NULL,
                text bytea,
                used_day int NOT NULL
            ) PARTITION BY LIST (version);
            ALTER TABLE {self.vectors} ALTER COLUMN value SET STORAGE EXTERNAL;
            CREATE TABLE IF NOT EXISTS {self.deletions} (
                one bool PRIMARY KEY DEFAULT true CHECK (one),
                deletions bigint NOT NULL,
                floor bigint NOT NULL
            );
            INSERT INTO {self.deletions} VALUES (true, 0, 0) ON CONFLICT DO NOTHING;
            CREATE TABLE IF NOT EXISTS {self.deleted} (
                version int NOT NULL REFERENCES {self.versions} ON DELETE CASCADE,
                digest bytea NOT NULL,
                number bigint NOT NULL,
                deleted_at timestamptz NOT NULL,
                PRIMARY KEY (version, digest)
            );
            CREATE INDEX IF NOT EXISTS {self.deleted}_number ON {self.deleted} (number);
            CREATE TABLE IF NOT EXISTS {self.canaries} (
                version int NOT NULL REFERENCES {self.versions} ON DELETE CASCADE,
                text bytea NOT NULL,
                value bytea NOT NULL,
                PRIMARY KEY (version, text)
            );
            CREATE UNLOGGED TABLE IF NOT EXISTS {self.claims} (
                version text NOT NULL,
                digest bytea NOT NULL,
                holder bytea NOT NULL,
                ends_at timestamptz NOT NULL,
                PRIMARY KEY (version, digest)
            );
            CREATE INDEX IF NOT EXISTS {self.claims}_ends ON {self.claims} (ends_at);
        """  # noqa: S608  (nothing of it is a caller's)


@lru_cache(maxsize=1_024)
def _hash(version: str) -> str:
    return blake2b(version.encode(), digest_size=_HASH_BYTES).hexdigest()
