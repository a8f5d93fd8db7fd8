"""What `HttpUpstream` does when a connection it kept has gone bad."""

import asyncio
import json
import os
import socket
import struct

import pytest
from support.upstreams import (
    CALL,
    Events,
    MakeUpstream,
    ask,
    failure,
    raw_server,
    read,
    read_request,
)

from stepwell.core.errors import UpstreamBroken
from stepwell.engines import aiohttp_transport, direct_pool, http_session
from stepwell.engines.http import HttpUpstream
from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script

GOOD = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n"answer"'
STALE = b'HTTP/1.1 403 Forbidden\r\nx-stale: yes\r\ncontent-length: 7\r\n\r\n"stale"'
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def test_stale_connection_is_replaced(
    server: FakeUpstream, upstream: HttpUpstream, events: Events
) -> None:
    """A kept connection that ends before any byte of a reply costs one more try, unnoticed."""
    await ask(upstream)
    server.queue.append(Script(fault=Fault.NO_REPLY))
    answer = json.loads(await ask(upstream))
    assert answer["object"] == "chat.completion"
    assert server.call_count == 3
    assert events.seen == []


async def test_stale_connection_is_replaced_by_a_new_one(
    server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """The further try does not risk another kept connection, which may be as stale."""
    hold = asyncio.Event()
    server.queue.extend([Script(hold=hold), Script(hold=hold)])
    both = asyncio.gather(ask(upstream), ask(upstream))
    await server.wait_for_calls(2)
    hold.set()
    await both
    server.queue.extend([Script(fault=Fault.NO_REPLY), Script()])
    await ask(upstream)
    assert server.call_count == 4
    assert server.connection_count == 2


async def test_stale_connection_is_replaced_only_once(
    server: FakeUpstream, upstream: HttpUpstream, events: Events
) -> None:
    """A server that drops the new connection too has failed; it is asked no third time."""
    await ask(upstream)
    server.scripts["fake"] = Script(fault=Fault.NO_REPLY)
    with pytest.raises(UpstreamBroken):
        await ask(upstream)
    assert server.call_count == 3
    assert events.seen == [failure("broken")]


async def test_stale_connection_is_replaced_at_the_bound(
    server: FakeUpstream, make_upstream: MakeUpstream
) -> None:
    """The further try needs no second place among the connections, and leaves none too many."""
    upstream = make_upstream(server.base_url, max_connections=1)
    await ask(upstream)
    server.queue.append(Script(fault=Fault.NO_REPLY))
    await ask(upstream)
    await ask(upstream)
    assert server.call_count == 4
    assert server.connection_count == 1


async def test_late_end_of_a_kept_connection_is_not_retried(
    server: FakeUpstream, upstream: HttpUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ended the connection after a while may have worked: not sent again."""
    monkeypatch.setattr(http_session, "STALE_SECONDS", 0.0)
    await ask(upstream)
    server.queue.append(Script(fault=Fault.NO_REPLY))
    with pytest.raises(UpstreamBroken):
        await ask(upstream)
    assert server.call_count == 2


async def test_wait_for_a_connection_does_not_make_its_end_late(
    server: FakeUpstream, make_upstream: MakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How soon a connection ended counts from when the request went out, not from the call."""
    monkeypatch.setattr(http_session, "STALE_SECONDS", 0.2)
    upstream = make_upstream(server.base_url, max_connections=1)
    await ask(upstream)
    server.queue.extend([Script(head_delay_seconds=0.3), Script(fault=Fault.NO_REPLY)])
    answers = await asyncio.gather(ask(upstream), ask(upstream))
    assert [json.loads(answer)["object"] for answer in answers] == ["chat.completion"] * 2
    assert server.call_count == 4


async def test_reset_of_a_kept_connection_is_replaced(make_upstream: MakeUpstream) -> None:
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

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        assert [await ask(upstream), await ask(upstream)] == [b'"answer"', b'"answer"']
    assert requests == 3


async def test_end_inside_a_head_is_not_retried(make_upstream: MakeUpstream) -> None:
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

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        await ask(upstream)
        with pytest.raises(UpstreamBroken):
            await ask(upstream)
    assert requests == 2


@pytest.mark.parametrize("garbage", [STALE, STALE[:20], b"not HTTP"])
async def test_bytes_on_an_idle_connection_never_become_an_answer(
    garbage: bytes, make_upstream: MakeUpstream, events: Events
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

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        first = await ask(upstream)
        idle.set()
        await sent.wait()
        await asyncio.sleep(0.02)  # lets the bytes reach the client; were they slower, no test
        assert [first, await ask(upstream), await ask(upstream)] == [b'"answer"'] * 3
    assert events.seen == []


async def test_bytes_behind_a_reply_never_become_an_answer(make_upstream: MakeUpstream) -> None:
    """The same, when they come in one packet with the end of the reply before."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(GOOD + STALE)

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        for _ in range(3):
            reply = await upstream.send(CALL)
            assert (reply.status, await read(reply)) == (200, b'"answer"')
            assert reply.headers == (("content-type", "application/json"),)


async def test_bytes_that_nobody_has_seen_yet_never_become_an_answer(events: Events) -> None:
    """The same, when they came while this process was busy: the direct client asks the kernel."""
    connections: list[asyncio.StreamWriter] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while True:
            await read_request(reader)
            writer.write(GOOD)

    async with raw_server(handler) as base_url:
        upstream = HttpUpstream("main", base_url, identity="test", events=events)
        await ask(upstream)
        raw = connections[0].get_extra_info("socket")
        with socket.socket(fileno=os.dup(raw.fileno())) as behind_the_loops_back:
            behind_the_loops_back.sendall(STALE)
        assert await ask(upstream) == b'"answer"'
        await upstream.aclose()
    assert len(connections) == 2


async def test_idle_connections_are_closed_after_a_while(
    server: FakeUpstream, make_upstream: MakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst's connections do not stay for ever."""
    monkeypatch.setattr(direct_pool, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(aiohttp_transport, "KEEP_ALIVE_SECONDS", 0.05)
    upstream = make_upstream(server.base_url)
    await asyncio.gather(*(ask(upstream) for _ in range(3)))
    async with asyncio.timeout(5):
        while server.connection_count:  # noqa: ASYNC110  (the fake tells no more)
            await asyncio.sleep(0.01)


async def test_connections_are_bounded(server: FakeUpstream, make_upstream: MakeUpstream) -> None:
    """Calls beyond the bound wait for a connection and are then answered, in turn."""
    hold = asyncio.Event()
    server.scripts["fake"] = Script(hold=hold)
    upstream = make_upstream(server.base_url, max_connections=2)
    asking = [asyncio.create_task(upstream.send(CALL)) for _ in range(5)]
    await server.wait_for_calls(2)
    assert server.connection_count == 2
    hold.set()
    bodies = [await read(await reply) for reply in asking]
    assert len(bodies) == 5
    assert server.connection_count <= 2


async def test_calls_that_stop_waiting_keep_no_place(
    server: FakeUpstream, make_upstream: MakeUpstream, events: Events
) -> None:
    """A call that is cancelled while it waits for a connection, or given one, leaves no trace."""
    hold = asyncio.Event()
    server.queue.append(Script(hold=hold))
    upstream = make_upstream(server.base_url, max_connections=1)
    first = asyncio.create_task(ask(upstream))
    await server.wait_for_calls(1)
    others = [asyncio.create_task(ask(upstream)) for _ in range(4)]
    await asyncio.sleep(0)  # they wait now
    others[0].cancel()
    hold.set()
    await first  # at this moment the next one is being given the connection
    others[1].cancel()
    results = await asyncio.gather(*others, return_exceptions=True)
    assert [type(result) for result in results[:2]] == [asyncio.CancelledError] * 2
    assert [type(result) for result in results[2:]] == [bytes, bytes]
    await asyncio.gather(*(ask(upstream) for _ in range(3)))
    assert events.seen == []
