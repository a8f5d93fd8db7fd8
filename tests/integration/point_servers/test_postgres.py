"""PostgreSQL's own: what is wrong at the start, plans, connections in use."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

import pytest
from support.point_servers import open_postgres_points
from support.points import make_id, make_near, make_point, make_vectors, texts
from support.postgres_server import PostgresServer, postgres_server
from support.redis_client import Changes
from support.redis_servers import PATIENCE_SECONDS, free_port

from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Address, Connection, Dialer
from stepwell.stores.postgres.points import SESSION, PostgresPoints
from stepwell.stores.postgres.schema import Schema

LATER = time.time() + 3_600


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


async def nothing(connection: Connection) -> None:
    """Prepare nothing."""


async def sleep(connection: Connection) -> None:
    """Take longer than any call may."""
    await connection.execute("SELECT pg_sleep(60)")


async def stuck(connection: Connection) -> None:
    """The same, and the server does not notice."""
    await connection.execute("SET statement_timeout = 0")
    await sleep(connection)


@asynccontextmanager
async def database(
    server: PostgresServer, changes: Changes, *, connections: int = 1, seconds: float = 0.3
) -> AsyncIterator[Database]:
    dialer = Dialer(Address(server.url), seconds, nothing, {})
    async with aclosing(Database(dialer, connections=connections, on_change=changes)) as started:
        await started.start()
        yield started


async def test_what_no_waiting_mends(postgres: PostgresServer) -> None:
    """It is said at the start, with what to do."""
    postgres.query("CREATE DATABASE bare")
    postgres.query("CREATE ROLE guest LOGIN")
    bare = postgres.url.replace("postgres@", "guest@").replace("/postgres", "/bare")
    with pytest.raises(ConfigError, match=r"no pgvector in this database; install it"):
        await open_postgres_points(bare)
    postgres.query("CREATE EXTENSION vector", "bare")
    with pytest.raises(ConfigError, match="permission denied for schema"):
        await open_postgres_points(bare)
    with pytest.raises(ConfigError, match='database "none" does not exist'):
        await open_postgres_points(postgres.url.removesuffix("postgres") + "none")
    with pytest.raises(ConfigError, match="5000 dimensions; allowed: up to 4000"):
        await open_postgres_points(postgres.url, dimensions=5_000)


async def test_nobody_there_is_no_error() -> None:
    """And no password stands in what is told."""
    opened = await open_postgres_points(f"postgresql://me:secret@127.0.0.1:{free_port()}/points")
    assert opened.points.trouble.startswith("127.0.0.1:")
    assert "secret" not in opened.points.trouble
    await opened.points.aclose()


async def test_the_index_goes_on_within_the_partition(postgres: PostgresServer) -> None:
    """Where the plan is to ask the index, points elsewhere do not starve the search."""
    schema, changes = Schema("starved", "model", 16), Changes()
    by_index = {**SESSION, "enable_seqscan": "off", "enable_bitmapscan": "off"}
    by_index.update({"enable_sort": "off", "hnsw.ef_search": "10"})
    searching, writing = (
        Database(
            Dialer(Address(postgres.url), PATIENCE_SECONDS, schema.prepare, session),
            connections=1,
            on_change=changes,
        )
        for session in (by_index, SESSION)
    )
    points = PostgresPoints(schema, searching, writing)
    await points.start()
    asked = make_vectors(1)
    for number, vector in enumerate(make_near(asked.repeat(500, axis=0), 0.99)):
        other = make_point(f"other {number}", partition="other", expires_at=LATER)
        await points.add(other, vector)
    for tenths in range(1, 9):
        far = make_near(asked, tenths / 10, seed=tenths)[0]
        await points.add(make_point(f"mine {tenths}", expires_at=LATER), far)
    postgres.query("DROP INDEX " + f"{schema.points}_part")
    found = await points.search(make_id("partition"), asked[0], 8, time.time())
    assert texts(found) == [f"mine {tenths}" for tenths in range(8, 0, -1)]
    scans = f"SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = '{schema.points}_near'"
    await points.aclose()
    assert postgres.query(scans) == "1"


async def test_calls_wait_for_a_connection(postgres: PostgresServer) -> None:
    """For as long as they may take; closing ends them."""
    async with database(postgres, Changes(), seconds=PATIENCE_SECONDS) as held:
        gate = asyncio.Event()

        async def hold(connection: Connection) -> None:
            await gate.wait()

        holding = asyncio.create_task(held.run(hold))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(held.run(nothing)) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in waiting)
        gate.set()
        await asyncio.gather(holding, *waiting)
    with pytest.raises(StoreUnavailable, match="closed here"):
        await held.run(nothing)


async def test_no_free_connection_says_nothing_of_the_server(postgres: PostgresServer) -> None:
    """Who waited in vain for one is not late, however often."""
    changes = Changes()
    async with database(postgres, changes) as hasty:
        holding = asyncio.create_task(hasty.run(stuck))
        await asyncio.sleep(0)
        waiting = [hasty.run(nothing) for _ in range(5)]
        told = await asyncio.gather(holding, *waiting, return_exceptions=True)
        assert str(told[0]) == "the server did not answer in time"
        assert [str(one) for one in told[1:]] == ["all connections were in use"] * 5
        assert changes.seen == []


async def test_a_slow_server_is_left_alone(postgres: PostgresServer) -> None:
    """After three calls in a row that it gave up itself, or that we did."""
    changes = Changes()
    async with database(postgres, changes, connections=2) as slow:
        for work in (sleep, stuck, nothing, sleep, stuck):
            if work is nothing:
                await slow.run(work)
                continue
            with pytest.raises(StoreUnavailable):
                await slow.run(work)
        assert changes.seen == []
        with pytest.raises(StoreUnavailable):
            await slow.run(sleep)
        assert "3 answers in a row were late" in await changes.opened()
        await changes.closed()
        await slow.run(nothing)


async def test_a_table_that_was_dropped_is_made_again(postgres: PostgresServer) -> None:
    """The operator may throw all points away."""
    opened = await open_postgres_points(postgres.url, "dropped")
    vector = make_vectors(1)[0]
    await opened.points.add(make_point(expires_at=LATER), vector)
    postgres.query(f"DROP TABLE {Schema('dropped', 'model', 16).points}")
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await opened.points.search(make_id("partition"), vector, 8, time.time())
    await opened.changes.closed()
    await opened.points.add(make_point(expires_at=LATER), vector)
    found = await opened.points.search(make_id("partition"), vector, 8, time.time())
    assert texts(found) == ["point"]
    await opened.points.aclose()
