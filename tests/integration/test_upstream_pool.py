"""What `HttpUpstream` does when a connection it kept has gone bad."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from stepwell.core.errors import UpstreamBroken
from stepwell.core.events import Event, UpstreamFailed
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call
from stepwell.engines import http_session
from stepwell.engines.http import HttpUpstream
from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script

CALL = Call(Endpoint.CHAT, b'{"model":"fake","messages":[]}', ())
GOOD = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n"answer"'
STALE = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n"stale"'
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Events:
    """Keeps what was emitted."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    def emit(self, event: Event) -> None:
        self.seen.append(event)


@pytest.fixture
def events() -> Events:
    return Events()


@asynccontextmanager
async def client(base_url: str, events: Events) -> AsyncIterator[HttpUpstream]:
    upstream = HttpUpstream("main", base_url, identity="test", events=events)
    try:
        yield upstream
    finally:
        await upstream.aclose()


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncIterator[str]:
    """Serve each connection by ``handler``, which then closes it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except asyncio.IncompleteReadError:
            pass  # the client has closed the connection
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/v1"
    server.close()


async def read_request(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(len(CALL.body))


async def ask(upstream: HttpUpstream) -> bytes:
    reply = await upstream.send(CALL)
    try:
        return b"".join([chunk async for chunk in reply.chunks()])
    finally:
        await reply.aclose()


async def test_stale_connection_is_replaced(events: Events) -> None:
    """A kept connection that ends before any byte of a reply costs one more try, unnoticed."""
    async with FakeUpstream() as server, client(server.base_url, events) as upstream:
        await ask(upstream)
        server.queue.append(Script(fault=Fault.NO_REPLY))
        answer = json.loads(await ask(upstream))
        assert answer["object"] == "chat.completion"
        assert server.call_count == 3
    assert events.seen == []


async def test_stale_connection_is_replaced_by_a_new_one(events: Events) -> None:
    """The further try does not risk another kept connection, which may be as stale."""
    hold = asyncio.Event()
    async with FakeUpstream() as server, client(server.base_url, events) as upstream:
        server.queue.extend([Script(hold=hold), Script(hold=hold)])
        both = asyncio.gather(ask(upstream), ask(upstream))
        await server.wait_for_calls(2)
        hold.set()
        await both
        server.queue.extend([Script(fault=Fault.NO_REPLY), Script()])
        await ask(upstream)
        assert server.call_count == 4
        assert server.connection_count == 2


async def test_stale_connection_is_replaced_only_once(events: Events) -> None:
    """A server that drops the new connection too has failed; it is asked no third time."""
    async with FakeUpstream() as server, client(server.base_url, events) as upstream:
        await ask(upstream)
        server.scripts["fake"] = Script(fault=Fault.NO_REPLY)
        with pytest.raises(UpstreamBroken):
            await ask(upstream)
        assert server.call_count == 3
    assert events.seen == [UpstreamFailed("main", "broken")]


async def test_late_end_of_a_kept_connection_is_not_retried(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ended the connection after a while may have worked: not sent again."""
    monkeypatch.setattr(http_session, "STALE_SECONDS", 0.0)
    async with FakeUpstream() as server, client(server.base_url, events) as upstream:
        await ask(upstream)
        server.queue.append(Script(fault=Fault.NO_REPLY))
        with pytest.raises(UpstreamBroken):
            await ask(upstream)
        assert server.call_count == 2


async def test_reset_of_a_kept_connection_is_replaced(events: Events) -> None:
    """A reset in place of an orderly end means the same."""
    requests = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        while True:
            await read_request(reader)
            requests += 1
            if requests == 2:
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                return
            writer.write(GOOD)

    async with raw_server(handler) as base_url, client(base_url, events) as upstream:
        assert [await ask(upstream), await ask(upstream)] == [b'"answer"', b'"answer"']
    assert requests == 3


async def test_end_inside_a_head_is_not_retried(events: Events) -> None:
    """A server that began to answer had read the request: it is not sent again."""
    requests = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        while True:
            await read_request(reader)
            requests += 1
            if requests == 2:
                writer.write(GOOD[:30])
                return
            writer.write(GOOD)

    async with raw_server(handler) as base_url, client(base_url, events) as upstream:
        await ask(upstream)
        with pytest.raises(UpstreamBroken):
            await ask(upstream)
    assert requests == 2


@pytest.mark.parametrize("garbage", [STALE, STALE[:20], b"not HTTP"])
async def test_bytes_on_an_idle_connection_never_become_an_answer(
    garbage: bytes, events: Events
) -> None:
    """What a server sends unasked is dropped with its connection, be it a perfect reply."""
    idle = asyncio.Event()
    sent = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(GOOD)
            if not sent.is_set():
                await idle.wait()
                writer.write(garbage)
                sent.set()

    async with raw_server(handler) as base_url, client(base_url, events) as upstream:
        first = await ask(upstream)
        idle.set()
        await sent.wait()
        await asyncio.sleep(0.02)  # lets the bytes reach the client; were they slower, no test
        assert [first, await ask(upstream), await ask(upstream)] == [b'"answer"'] * 3
    assert events.seen == []


async def test_bytes_behind_a_reply_never_become_an_answer(events: Events) -> None:
    """The same, when they come in one packet with the end of the reply before."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(GOOD + STALE)

    async with raw_server(handler) as base_url, client(base_url, events) as upstream:
        assert [await ask(upstream) for _ in range(3)] == [b'"answer"'] * 3


async def test_compressed_reply_is_decoded(events: Events) -> None:
    """A server that compresses unasked is understood; its framing does not reach the caller."""
    import gzip  # noqa: PLC0415  (one test's business)

    packed = gzip.compress(b'"answer"')
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
        b"content-length: %d\r\n\r\n" % len(packed)
    )

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(head + packed)

    async with raw_server(handler) as base_url, client(base_url, events) as upstream:
        reply = await upstream.send(CALL)
        body = b"".join([chunk async for chunk in reply.chunks()])
        await reply.aclose()
    assert body == b'"answer"'
    assert reply.headers == (("content-type", "application/json"),)


async def test_unknown_coding_raises_broken(events: Events) -> None:
    """A coding that cannot be undone is never passed on as if it were the answer."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(GOOD.replace(b"content-length", b"content-encoding: zip9\r\ncontent-length"))

    async with raw_server(handler) as base_url, client(base_url, events) as upstream:
        with pytest.raises(UpstreamBroken, match="content coding 'zip9'"):
            await upstream.send(CALL)
    assert events.seen == [UpstreamFailed("main", "broken")]
