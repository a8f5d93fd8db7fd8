"""What `HttpUpstream` puts on the wire, and what it refuses to put there."""

import asyncio

import pytest
from support.upstreams import (
    Events,
    MakeUpstream,
    ask,
    make_call,
    raw_server,
    read,
    read_request,
)

from stepwell.core.errors import ConfigError, RequestError
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call
from stepwell.engines.http import HttpUpstream
from stepwell.testing.fake_upstream import FakeUpstream

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("GET", b"", None),
        ("POST", b"", "0"),
        ("POST", b"{}", "2"),
        ("DELETE", b"{}", "2"),
    ],
)
async def test_length_of_a_body_is_told(
    method: str, body: bytes, length: str | None, server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """So that the server knows where the request ends; nothing is asked of it beforehand."""
    await read(await upstream.forward(method, "models", "", (), body))
    sent = dict(server.calls[0].headers)
    assert (server.calls[0].method, server.calls[0].body) == (method, body)
    assert sent.get("content-length") == length
    assert {"expect", "transfer-encoding"}.isdisjoint(sent)


async def test_callers_own_fields_replace_the_defaults(
    server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """Each field goes out once."""
    given = (("user-agent", "theirs"), ("accept", "application/json"))
    await ask(upstream, make_call(headers=given))
    sent = [field for field in server.calls[0].headers if field[0] in {"user-agent", "accept"}]
    assert sorted(sent) == sorted(given)


@pytest.mark.parametrize("size", [MEBIBYTE - 1, MEBIBYTE, 6 * MEBIBYTE])
async def test_large_body_arrives_whole(
    size: int, server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """However large, as it is, and without a warning."""
    filler = b'{"model":"fake","messages":[{"role":"user","content":"%b"}]}'
    body = filler % (b"x" * (size - len(filler) + 2))
    for _ in range(2):
        await ask(upstream, Call(Endpoint.CHAT, body, ()))
    assert [received.body == body for received in server.calls] == [True, True]
    assert server.connection_count == 1


async def test_large_body_waits_for_a_slow_server(make_upstream: MakeUpstream) -> None:
    """A server that reads late gets all of it."""
    size = 20 * MEBIBYTE
    read_on = asyncio.Event()
    received = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await reader.readuntil(b"\r\n\r\n")
        await read_on.wait()
        while received < size:
            received += len(await reader.read(MEBIBYTE))
        writer.write(OK)

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        sending = asyncio.create_task(ask(upstream, Call(Endpoint.CHAT, bytes(size), ())))
        await asyncio.sleep(0.05)  # the kernel's buffers fill; were it slower, no test
        assert not sending.done()
        read_on.set()
        assert await sending == b"{}"
    assert received == size


async def test_reply_before_the_body_was_read_is_a_reply(make_upstream: MakeUpstream) -> None:
    """A server that refuses a large body unread is heard; its connection is not used again."""
    refusal = OK.replace(b"200 OK", b"413 Content Too Large")
    connections = 0
    heard = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        await heard.wait()  # closing at once would reset the connection, and lose the refusal

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        for _ in range(2):
            reply = await upstream.send(Call(Endpoint.CHAT, bytes(20 * MEBIBYTE), ()))
            assert reply.status == 413
            await reply.aclose()
        heard.set()
    assert connections == 2


@pytest.mark.parametrize(
    "field",
    [
        ("", "a"),
        ("x y", "a"),
        ("x:y", "a"),
        ("x: y", "a"),
        ("x\r\nx-other", "a"),
        ("x\0", "a"),
        ("x-中", "a"),
        ("X-Upper", "a"),
        ("x", "secret\r\nx-other: b"),
        ("x", "secret\nb"),
        ("x", "secret\rb"),
        ("x", "secret\0b"),
        ("x", "secret\x7f"),
        ("x", "secret 中"),
    ],
)
async def test_fields_that_would_be_more_than_fields_are_refused(
    field: tuple[str, str], server: FakeUpstream, upstream: HttpUpstream, events: Events
) -> None:
    """Nothing is sent, least of all a second field or request; the value is not quoted."""
    with pytest.raises(RequestError) as caught:
        await upstream.send(make_call(headers=(field,)))
    assert "secret" not in str(caught.value)
    assert server.call_count == 0
    assert events.seen == []


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "models HTTP/1.1\r\nx-other: b", ""),
        ("GET", "models", "a=b HTTP/1.1"),
        ("GET", "models", "a\nb"),
        ("GET", "models/中", ""),
        ("GET", "a\0b", ""),
        ("GET /", "models", ""),
        ("", "models", ""),
        ("GET\r\n", "models", ""),
        ("GÉT", "models", ""),
    ],
)
async def test_request_lines_that_would_be_more_than_one_are_refused(
    method: str, path: str, query: str, server: FakeUpstream, upstream: HttpUpstream
) -> None:
    """The same for what stands before the fields."""
    with pytest.raises(RequestError):
        await upstream.forward(method, path, query, (), b"")
    assert server.call_count == 0


def test_key_that_no_field_can_hold_is_refused(events: Events) -> None:
    """At the start, and without quoting it."""
    with pytest.raises(ConfigError, match=r"\[upstreams\.main\]") as caught:
        HttpUpstream(
            "main", "http://127.0.0.1:1/v1", identity="", events=events, api_key="se\ncret"
        )
    assert "cret" not in str(caught.value)


async def test_octets_arrive_as_they_are(server: FakeUpstream, events: Events) -> None:
    """A value in any encoding, which ASGI gives as Latin-1, is not encoded again."""
    upstream = HttpUpstream("main", server.base_url, identity="test", events=events)
    octets = "Zürich".encode() + b"\xff"
    text = octets.decode("latin-1")
    await ask(upstream, make_call(headers=(("x-org", text),), query=text))
    await upstream.aclose()
    assert dict(server.calls[0].headers)["x-org"].encode("latin-1") == octets
    assert server.calls[0].query.encode("latin-1") == octets


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("127.0.0.1", "localhost")]
)
async def test_host_is_an_address_or_a_name(
    host: str, shown: str, make_upstream: MakeUpstream
) -> None:
    """IPv4, IPv6, or a name that stands for either; ``host`` says what the URL says."""
    heads: list[str] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await read_request(reader)).decode())
        writer.write(OK)

    async with raw_server(handler, host) as base_url:
        port = base_url.removesuffix("/v1").rpartition(":")[2]
        assert await ask(make_upstream(f"http://{shown}:{port}/v1")) == b"{}"
    fields = [line.partition(": ") for head in heads for line in head.split("\r\n")]
    assert [value for name, _, value in fields if name.lower() == "host"] == [f"{shown}:{port}"]
