"""The tables: two of all collections, and three of each edition, which go with it.

    <prefix>_collections     names, epochs, and the edition that is searched
    <prefix>_editions        recipes
    <prefix>_documents_<n>   of one edition
    <prefix>_passages_<n>    texts and vectors; a text that several chunks have stands there once
    <prefix>_chunks_<n>      which document has which passages

Tables of their own in place of partitions of one: their vectors' width is part of their type, and
making or dropping them locks nothing that others search. Texts are bytes, since a text of
PostgreSQL's cannot hold NUL.
"""

from dataclasses import dataclass

from stepwell.core.documents import Edition, Recipe
from stepwell.core.errors import ConfigError
from stepwell.stores.postgres.dialing import Connection
from stepwell.stores.postgres.schema import MAX_DIMENSIONS, make_tables

SESSION = {
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",
    "hnsw.ef_search": "64",
    "hnsw.iterative_scan": "relaxed_order",
}
"""Of each connection that searches. Five of 20,000 passages are found as surely as with 100, in
half the time. The index goes on until it has found enough that was not deleted meanwhile."""

_HNSW = "m = 16, ef_construction = 64"

BUILDING_MEMORY = "256MB"
"""What building an index may take; it slows down tenfold once its graph does not fit."""


@dataclass(frozen=True, slots=True)
class DocumentSchema:
    """Names and definitions of a deployment."""

    prefix: str
    """``[a-z][a-z0-9_]*``, at most 24 characters: it stands in statements as it is."""

    @property
    def collections(self) -> str:
        """Name of the table of collections."""
        return f"{self.prefix}_collections"

    @property
    def editions(self) -> str:
        """Name of the table of editions."""
        return f"{self.prefix}_editions"

    def documents(self, edition: Edition) -> str:
        """Return the name of an edition's table of documents."""
        return f"{self.prefix}_documents_{edition:d}"

    def passages(self, edition: Edition) -> str:
        """Return the name of an edition's table of texts and vectors."""
        return f"{self.prefix}_passages_{edition:d}"

    def chunks(self, edition: Edition) -> str:
        """Return the name of the table of which document has which texts."""
        return f"{self.prefix}_chunks_{edition:d}"

    async def prepare(self, connection: Connection) -> None:
        """Make what is missing. One round trip where nothing is.

        Raises:
            ConfigError: The server has no pgvector, or an old one, or we may not make tables.
        """
        await make_tables(connection, self.editions, self._definition(), lock=self.collections)

    def _definition(self) -> str:
        return f"""
            CREATE TABLE IF NOT EXISTS {self.collections} (
                id bigint PRIMARY KEY,
                name bytea NOT NULL UNIQUE,
                epoch bigint NOT NULL,
                serving bigint
            );
            CREATE TABLE IF NOT EXISTS {self.editions} (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                collection bigint NOT NULL REFERENCES {self.collections},
                recipe bytea NOT NULL,
                kind text NOT NULL,
                dimensions integer NOT NULL,
                chunker text NOT NULL,
                UNIQUE (collection, recipe)
            );
        """

    def edition_definition(self, edition: Edition, recipe: Recipe) -> str:
        """Return what makes an edition's tables. Its vectors are not indexed yet.

        Raises:
            ConfigError: Its vectors cannot be indexed.
        """
        if recipe.dimensions > MAX_DIMENSIONS:
            raise ConfigError(
                f"the embedder's vectors have {recipe.dimensions} dimensions; PostgreSQL indexes up"
                f" to {MAX_DIMENSIONS}"
            )
        return f"""
            CREATE TABLE {self.documents(edition)} (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                name bytea NOT NULL UNIQUE,
                epoch bigint NOT NULL,
                content bytea NOT NULL,
                metadata bytea NOT NULL,
                updated_at float8 NOT NULL
            );
            CREATE TABLE {self.passages(edition)} (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                digest bytea NOT NULL UNIQUE,
                text bytea NOT NULL,
                vector halfvec({recipe.dimensions}) NOT NULL
            );
            CREATE TABLE {self.chunks(edition)} (
                document bigint NOT NULL,
                number integer NOT NULL,
                passage bigint NOT NULL,
                start integer NOT NULL,
                PRIMARY KEY (document, number)
            );
            CREATE INDEX ON {self.chunks(edition)} (passage);
        """

    def index_definition(self, edition: Edition) -> str:
        """Return what builds the index that is searched, unless it is there."""
        passages = self.passages(edition)
        return (
            f"CREATE INDEX IF NOT EXISTS {passages}_near ON {passages}"
            f" USING hnsw (vector halfvec_cosine_ops) WITH ({_HNSW})"
        )

    def drop_statement(self, edition: Edition) -> str:
        """Return what drops an edition's tables."""
        tables = (self.chunks(edition), self.passages(edition), self.documents(edition))
        return f"DROP TABLE IF EXISTS {', '.join(tables)}"
