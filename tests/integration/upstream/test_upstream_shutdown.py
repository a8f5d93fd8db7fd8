"""Ends: of a process, of patience, of memory."""

import asyncio

import pytest
from support.upstreams import (
    CALL,
    Events,
    MakeUpstream,
    ask,
    failure,
    make_call,
    raw_server,
    read,
    read_request,
)

from stepwell.core.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from stepwell.engines.http import HttpUpstream
from stepwell.testing.fake_upstream import FakeUpstream, Script

MEBIBYTE = 1 << 20


async def test_closed_upstream_is_unreachable(upstream: HttpUpstream) -> None:
    """Work that outlives the shutdown gets an error of ours; closing twice is fine."""
    await upstream.aclose()
    await upstream.aclose()
    with pytest.raises(UpstreamUnreachable, match="main is closed"):
        await upstream.send(CALL)


async def test_closing_ends_what_is_under_way(
    server: FakeUpstream, make_upstream: MakeUpstream
) -> None:
    """Calls that wait for a head, for a chunk or for a connection get an error of ours."""
    upstream = make_upstream(server.base_url, max_connections=2)
    reading = await upstream.send(make_call("fake-hang", stream=True))
    chunks = reading.chunks()
    await anext(chunks)
    next_chunk = asyncio.ensure_future(anext(chunks))
    head = asyncio.create_task(upstream.send(make_call("fake-silent")))
    await server.wait_for_calls(2)
    connection = asyncio.create_task(upstream.send(CALL))
    await asyncio.sleep(0)  # it waits now
    await upstream.aclose()
    ends = await asyncio.gather(next_chunk, head, connection, return_exceptions=True)
    await reading.aclose()
    assert [type(end) for end in ends] == [UpstreamBroken, UpstreamBroken, UpstreamUnreachable]
    await server.calls[0].abandoned.wait()
    await server.calls[1].abandoned.wait()


async def test_closing_does_not_complete_a_body(make_upstream: MakeUpstream) -> None:
    """A body that ends with its connection ends when the *server* closes it, not when we do."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[1,")
        await reader.read()

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        reply = await upstream.send(CALL)
        chunks = reply.chunks()
        assert await anext(chunks) == b"[1,"
        await upstream.aclose()
        with pytest.raises(UpstreamBroken):
            await anext(chunks)
        await reply.aclose()


async def test_wait_for_a_connection_is_part_of_the_wait_for_a_head(
    server: FakeUpstream, make_upstream: MakeUpstream, events: Events
) -> None:
    """All connections taken: the limit holds, and who gave up stands in nobody's way."""
    upstream = make_upstream(server.base_url, max_connections=1, first_byte_timeout_seconds=0.1)
    taken = await upstream.send(make_call("fake-hang", stream=True))
    for _ in range(2):
        with pytest.raises(UpstreamTimeout, match=r"main gave no reply within 0\.1 s"):
            await upstream.send(CALL)
    await taken.aclose()
    await ask(upstream)
    assert server.call_count == 2
    assert events.seen == [failure("timeout")] * 2


async def test_time_with_a_chunk_in_hand_is_not_the_servers(
    server: FakeUpstream, make_upstream: MakeUpstream
) -> None:
    """Only waiting counts: a slow reader does not make the server late."""
    upstream = make_upstream(server.base_url, chunk_timeout_seconds=0.1)
    resume = asyncio.Event()
    server.queue.append(Script(after_events=2, resume=resume))
    reply = await upstream.send(make_call(stream=True))
    body = b""
    async for chunk in reply.chunks():
        if not resume.is_set():
            await asyncio.sleep(0.2)  # twice what the server has
            resume.set()
        body += chunk
    await reply.aclose()
    assert body.endswith(b"data: [DONE]\n\n")


async def test_slow_reader_makes_the_server_wait(make_upstream: MakeUpstream) -> None:
    """A body that nobody reads is not taken into memory; later it is read whole."""
    size = 48 * MEBIBYTE
    stalled = asyncio.Event()
    taken = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // MEBIBYTE):
            writer.write(bytes(MEBIBYTE))
            draining = asyncio.create_task(writer.drain())
            await asyncio.wait([draining], timeout=0.25)
            if not draining.done():
                stalled.set()
            await draining
            taken += MEBIBYTE
        await reader.read()

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        reply = await upstream.send(CALL)
        await stalled.wait()
        assert taken < size // 2  # the kernel's buffers, and little more
        assert len(await read(reply)) == size
