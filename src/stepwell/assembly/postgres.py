"""Opens the database that gateways keep points in."""

from collections.abc import Callable, Mapping

from stepwell.assembly.environment import secret_from
from stepwell.assembly.settings import Postgres
from stepwell.core.clock import Clock
from stepwell.core.vectors import Embedder
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Address, Dialer
from stepwell.stores.postgres.documents.schema import SESSION as PASSAGE_SESSION
from stepwell.stores.postgres.documents.schema import DocumentSchema
from stepwell.stores.postgres.documents.store import PostgresLibrary
from stepwell.stores.postgres.embeddings.schema import EmbeddingSchema
from stepwell.stores.postgres.embeddings.store import SESSION as READING_SESSION
from stepwell.stores.postgres.embeddings.store import PostgresEmbeddings
from stepwell.stores.postgres.points import SESSION, PostgresPoints
from stepwell.stores.postgres.schema import Schema

SEARCHING = 4
"""Connections of a worker for searches; each takes one a millisecond or two."""

READING = 4
"""Connections of a worker that ask for vectors; 256 of 1,536 numbers take some 10 ms."""

WRITING = 2
"""Connections of a worker that write them."""

WRITE_SECONDS = 5.0
"""What anything else may take; nobody waits for it."""

DOCUMENT_SECONDS = 60.0
"""What putting a document in may take; one of 16 MB has 16,000 chunks."""

INDEX_SECONDS = 3_600.0
"""What building an index of passages may take."""


def make_postgres_points(
    table: Postgres,
    url: str,
    embedder: Embedder,
    *,
    search_seconds: float,
    on_change: Callable[[str], None],
) -> PostgresPoints:
    """Return the points of an embedder in the database of ``[stores.postgres]``, not started yet.

    Args:
        table: How to connect.
        url: Where.
        embedder: Whose vectors they are.
        search_seconds: What a search may take.
        on_change: Called with `PostgresPoints.trouble`, also where it is as it was.

    Raises:
        ConfigError: A setting cannot be used.
    """
    address = _address(table, url)
    schema = Schema(table.prefix, embedder.model_id, embedder.dimensions)

    def database(connections: int, seconds: float) -> Database:
        dialer = Dialer(address, seconds, schema.prepare, SESSION)
        return Database(
            dialer, connections=connections, on_change=lambda _: on_change(points.trouble)
        )

    points = PostgresPoints(schema, database(SEARCHING, search_seconds), database(1, WRITE_SECONDS))
    return points


def make_postgres_embeddings(
    table: Postgres,
    url: str,
    *,
    read_seconds: float,
    clock: Clock,
    on_change: Callable[[str], None],
) -> PostgresEmbeddings:
    """Return the vectors in the database of ``[stores.postgres]``, not started yet.

    Args:
        table: How to connect.
        url: Where.
        read_seconds: What asking for vectors may take, and claiming them.
        clock: The time.
        on_change: Called with `PostgresEmbeddings.trouble`, also where it is as it was.

    Raises:
        ConfigError: A setting cannot be used.
    """
    address, schema = _address(table, url), EmbeddingSchema(table.prefix)

    def database(connections: int, seconds: float, session: Mapping[str, str]) -> Database:
        dialer = Dialer(address, seconds, schema.prepare, session)
        return Database(
            dialer, connections=connections, on_change=lambda _: on_change(store.trouble)
        )

    store = PostgresEmbeddings(
        schema,
        database(READING, read_seconds, READING_SESSION),
        database(WRITING, WRITE_SECONDS, {}),
        clock=clock,
    )
    return store


def make_postgres_library(
    table: Postgres, url: str, *, on_change: Callable[[str], None]
) -> PostgresLibrary:
    """Return the documents in the database of ``[stores.postgres]``, not started yet.

    Args:
        table: How to connect.
        url: Where.
        on_change: Called with `PostgresLibrary.trouble`, also where it is as it was.

    Raises:
        ConfigError: A setting cannot be used.
    """
    address, schema = _address(table, url), DocumentSchema(table.prefix)

    def database(connections: int, seconds: float) -> Database:
        dialer = Dialer(address, seconds, schema.prepare, PASSAGE_SESSION)
        return Database(
            dialer, connections=connections, on_change=lambda _: on_change(library.trouble)
        )

    library = PostgresLibrary(
        schema,
        database(SEARCHING, WRITE_SECONDS),
        database(WRITING, DOCUMENT_SECONDS),
        database(1, INDEX_SECONDS),
    )
    return library


def _address(table: Postgres, url: str) -> Address:
    password = None
    if table.password_env is not None:
        password = secret_from(table.password_env, setting="stores.postgres.password_env")
    return Address(url, password)
