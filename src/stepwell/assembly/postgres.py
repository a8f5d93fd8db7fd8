"""Opens the database that gateways keep points in."""

from collections.abc import Callable

from stepwell.assembly.environment import secret_from
from stepwell.assembly.settings import Postgres
from stepwell.core.vectors import Embedder
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Address, Dialer
from stepwell.stores.postgres.points import SESSION, PostgresPoints
from stepwell.stores.postgres.schema import Schema

SEARCHING = 4
"""Connections of a worker for searches; each takes one a millisecond or two."""

WRITE_SECONDS = 5.0
"""What anything else may take; nobody waits for it."""


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
    password = None
    if table.password_env is not None:
        password = secret_from(table.password_env, setting="stores.postgres.password_env")
    address = Address(url, password)
    schema = Schema(table.prefix, embedder.model_id, embedder.dimensions)

    def database(connections: int, seconds: float) -> Database:
        dialer = Dialer(address, seconds, schema.prepare, SESSION)
        return Database(
            dialer, connections=connections, on_change=lambda _: on_change(points.trouble)
        )

    points = PostgresPoints(schema, database(SEARCHING, search_seconds), database(1, WRITE_SECONDS))
    return points
