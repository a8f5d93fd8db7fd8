"""The direct client from inside: who gets a connection, and what it leaves behind."""

import asyncio
import gc
import os
import socket
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.upstreams import raw_server

from stepwell.engines.direct_connection import Connection, Owner
from stepwell.engines.direct_pool import Pool
from stepwell.engines.http_address import parse_base_url
from stepwell.engines.http_transport import Broken, CannotConnect
from stepwell.testing.fake_upstream import FakeUpstream


@asynccontextmanager
async def pool_of(base_url: str, max_connections: int) -> AsyncIterator[Pool]:
    address = parse_base_url("upstreams.main", base_url)

    async def connect(owner: Owner) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(owner, chunk_timeout_seconds=1.0), address.host, address.port
        )
        return connection

    pool = Pool(connect, max_connections=max_connections)
    yield pool
    await pool.aclose()


async def test_last_used_is_used_first(server: FakeUpstream) -> None:
    """So that those a burst needed grow old, and are closed."""
    async with pool_of(server.base_url, 3) as pool:
        connections = [await pool.take(fresh=False) for _ in range(3)]
        for connection in connections:
            pool.on_free(connection)
        taken = [pool.take_kept() for _ in range(3)]
    assert taken == connections[::-1]


async def test_nothing_is_kept_for_those_who_come_later(server: FakeUpstream) -> None:
    """Whoever waits is served before whoever asks now."""
    async with pool_of(server.base_url, 1) as pool:
        connection = await pool.take(fresh=False)
        waiting = [asyncio.create_task(pool.take(fresh=False)) for _ in range(2)]
        await asyncio.sleep(0)  # they wait now
        pool.on_free(connection)
        assert pool.take_kept() is None
        assert await waiting[0] is connection
        pool.on_free(connection)
        assert await waiting[1] is connection


async def test_slot_of_one_who_left_goes_on(server: FakeUpstream) -> None:
    """A caller who leaves in the moment it is given a connection does not keep it."""
    async with pool_of(server.base_url, 1) as pool:
        connection = await pool.take(fresh=False)
        leaving, waiting = [asyncio.create_task(pool.take(fresh=False)) for _ in range(2)]
        await asyncio.sleep(0)  # they wait now
        pool.on_free(connection)
        leaving.cancel()
        assert await waiting is connection
        assert leaving.cancelled()


async def test_lost_connection_returns_its_slot_once(server: FakeUpstream) -> None:
    """Whether it was out or idle."""
    async with pool_of(server.base_url, 1) as pool:
        for is_idle in (False, True, False):
            connection = await pool.take(fresh=False)
            if is_idle:
                pool.on_free(connection)
            connection.drop()
            await connection.wait_closed()
        last = await pool.take(fresh=False)
        waiting = asyncio.create_task(pool.take(fresh=False))
        await asyncio.sleep(0)  # it waits now
        assert not waiting.done()
        pool.on_free(last)
        assert await waiting is last


async def test_single_byte_that_nobody_asked_for_closes_a_connection() -> None:
    """At once, and not when it would be used next: its end may come with the next reply."""

    speak = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await speak.wait()
        writer.write(b"H")
        await reader.read()

    async with raw_server(handler) as base_url, pool_of(base_url, 1) as pool:
        connection = await pool.take(fresh=False)
        speak.set()
        await connection.wait_closed()


async def test_server_that_speaks_first_is_not_asked() -> None:
    """What it says would be taken for the answer."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"H")
        await reader.read()

    async with raw_server(handler) as base_url:
        address = parse_base_url("upstreams.main", base_url)

        async def connect(owner: Owner) -> Connection:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(owner, chunk_timeout_seconds=1.0), address.host, address.port
            )
            time.sleep(0.05)  # noqa: ASYNC251  (a busy loop, which has not read yet)
            return connection

        pool = Pool(connect, max_connections=1)
        for _ in range(2):
            with pytest.raises(CannotConnect):
                await pool.take(fresh=False)
        await pool.aclose()


async def test_closing_ends_what_is_still_connecting() -> None:
    """Whoever waits for it hears so at once; who leaves by itself is not kept, either."""
    ends: list[str] = []

    async def connect(_owner: Owner) -> Connection:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")
        raise AssertionError

    pool = Pool(connect, max_connections=2)
    leaving, waiting = [asyncio.create_task(pool.take(fresh=False)) for _ in range(2)]
    await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.sleep(0.01)
    assert (leaving.cancelled(), ends) == (True, ["ended"])
    await pool.aclose()
    with pytest.raises(CannotConnect, match="it is closed"):
        await waiting
    assert ends == ["ended", "ended"]


async def test_reply_that_is_closed_holds_nothing(server: FakeUpstream) -> None:
    """Its connection may be kept for long, and still refer to it."""
    async with pool_of(server.base_url, 1) as pool:
        connection = await pool.take(fresh=False)
        reply = await connection.exchange(
            b"GET /v1/models HTTP/1.1\r\n\r\n", b"", is_head=False, timeout_seconds=5
        )
        while not reply.waiting_bytes:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
        reply.close()
        assert (reply.waiting_bytes, reply._pieces) == (0, [])


async def test_large_body_is_not_copied_into_a_buffer() -> None:
    """What the kernel does not take yet stays where it is, but for a small piece."""
    body = bytes(20 << 20)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with raw_server(handler) as base_url, pool_of(base_url, 1) as pool:
        connection = await pool.take(fresh=False)
        sending = asyncio.create_task(
            connection.exchange(b"", body, is_head=False, timeout_seconds=0.1)
        )
        await asyncio.sleep(0.02)
        assert 0 < connection._transport.get_write_buffer_size() < 1 << 18
        with pytest.raises(TimeoutError):
            await sending


async def test_closed_connection_is_forgotten(server: FakeUpstream) -> None:
    """No timer of a limit that no longer matters holds it."""
    async with pool_of(server.base_url, 1) as pool:
        connection = await pool.take(fresh=False)
        asking = asyncio.create_task(
            connection.exchange(b"", b"", is_head=False, timeout_seconds=600.0)
        )
        await asyncio.sleep(0)  # its timer is set now
        connection.drop()
        with pytest.raises(Broken):
            await asking
        del asking
        await connection.wait_closed()
        left = weakref.ref(connection)
        del connection
        await asyncio.sleep(0)  # the loop lets go of what it has just run
        gc.collect()
        assert left() is None


async def test_new_connection_at_the_bound_replaces_an_idle_one(server: FakeUpstream) -> None:
    """A try that must not use a kept connection does not exceed the bound for long."""
    async with pool_of(server.base_url, 2) as pool:
        first, second = [await pool.take(fresh=False) for _ in range(2)]
        pool.on_free(first)
        third = await pool.take(fresh=True)
        await first.wait_closed()
        assert third not in {first, second}
        assert not second.is_closing


async def test_failed_attempts_return_their_slots(server: FakeUpstream) -> None:
    """No connection, one that was closed at once, or a caller who left: no slot is lost."""
    failing = True
    trying = asyncio.Event()

    async with pool_of(server.base_url, 1) as working:

        async def connect(owner: Owner) -> Connection:
            if not failing:
                trying.set()
                await asyncio.Event().wait()
            connection = await working.take(fresh=True)
            connection.drop()
            return connection

        pool = Pool(connect, max_connections=1)
        with pytest.raises(CannotConnect, match="at once"):
            await pool.take(fresh=False)
        failing = False
        for _ in range(2):
            trying.clear()
            leaving = asyncio.create_task(pool.take(fresh=False))
            await trying.wait()
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
        await pool.aclose()
        with pytest.raises(CannotConnect, match="it is closed"):
            await pool.take(fresh=False)


async def test_upload_that_is_cut_off_is_no_news_for_the_log(
    server: FakeUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    """A transport that has failed is not written to, piece by piece: each would be a warning."""
    async with pool_of(server.base_url, 1) as pool:
        connection = await pool.take(fresh=False)
        descriptor = connection._transport.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(descriptor)) as raw:
            raw.shutdown(socket.SHUT_WR)  # whatever is sent now fails at once
        with pytest.raises(Broken):
            await connection.exchange(b"", bytes(20 << 20), is_head=False, timeout_seconds=10)
    assert caplog.records == []
