"""What comes over a connection is not HTTP, odd HTTP, or two requests that look like one."""

import asyncio
import json
import socket
from typing import Any

import pytest
import uvicorn
from support.gateway import Answer, Gateway, question
from support.raw_http import RawClient, error_of, head, raw_client, request, unharmed
from uvicorn.server import ServerState

from stepwell.gateway.drain import Drain
from stepwell.gateway.protocol import GatewayProtocol
from stepwell.testing.fake_upstream import FakeUpstream, Script

BODY = json.dumps(question("smuggled")).encode()
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
IN_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
GET = b"GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n"


def with_fields(*lines: bytes, body: bytes = BODY) -> bytes:
    return head() + b"".join(lines) + b"\r\n" + body


NOT_HTTP = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "unknown method": b"BREW /v1/chat/completions HTTP/1.1\r\n\r\n",
    "tunnel": b"CONNECT model.example:443 HTTP/1.1\r\nhost: model.example\r\n\r\n",
    "version 1.2": GET.replace(b"1.1", b"1.2"),
    "version 3.0": GET.replace(b"1.1", b"3.0"),
    "no version": b"GET /healthz FTP/1.1\r\n\r\n",
    "bytes in path": b"GET /caf\xc3\xa9 HTTP/1.1\r\nhost: gateway\r\n\r\n",
    "bytes in query": head("/v1/chat/completions?q=X").replace(b"=X", b"=\xe9") + LENGTH + b"\r\n",
    "line feeds alone": request(BODY).replace(b"\r\n", b"\n"),
    "carriage returns alone": request(BODY).replace(b"\r\n", b"\r"),
    "space in name": with_fields(b"x stepwell-class: general\r\n", LENGTH),
    "space before colon": with_fields(b"content-length : %d\r\n" % len(BODY)),
    "no name": with_fields(b": general\r\n", LENGTH),
    "bytes in name": with_fields(b"x-caf\xe9: general\r\n", LENGTH),
    "no colon": with_fields(b"x-stepwell-class\r\n", LENGTH),
    "carriage return in value": with_fields(b"x-stepwell-tags: a\rb\r\n", LENGTH),
    "line feed in value": with_fields(b"x-stepwell-tags: a\nx-stepwell-class: b\r\n", LENGTH),
    "null in value": with_fields(b"x-stepwell-tags: a\0b\r\n", LENGTH),
    "bell in value": with_fields(b"x-stepwell-tags: a\x07b\r\n", LENGTH),
    "delete in value": with_fields(b"x-stepwell-tags: a\x7fb\r\n", LENGTH),
    "folded line": with_fields(b"x-stepwell-tags: a\r\n b\r\n", LENGTH),
}

SMUGGLED = {
    "length, then chunks": with_fields(LENGTH, CHUNKED, body=IN_CHUNKS),
    "chunks, then length": with_fields(CHUNKED, LENGTH, body=IN_CHUNKS),
    "two lengths": with_fields(LENGTH, b"content-length: 5\r\n"),
    "the same length twice": with_fields(LENGTH, LENGTH),
    "list of lengths": with_fields(LENGTH[:-2] + b", %d\r\n" % len(BODY)),
    "negative length": with_fields(b"content-length: -1\r\n"),
    "signed length": with_fields(b"content-length: +%d\r\n" % len(BODY)),
    "hexadecimal length": with_fields(b"content-length: 0x%x\r\n" % len(BODY)),
    "length in other digits": with_fields(b"content-length: \xd9\xa1\xd9\xa2\r\n"),
    "split length": with_fields(b"content-length: 6 4\r\n"),
    "empty length": with_fields(b"content-length:\r\n"),
    "length over 64 bits": with_fields(b"content-length: 99999999999999999999\r\n"),
    "not quite chunked": with_fields(b"transfer-encoding: xchunked\r\n", body=IN_CHUNKS),
    "chunked with a tab": with_fields(b"transfer-encoding: \x0bchunked\r\n", body=IN_CHUNKS),
    "chunked twice": with_fields(CHUNKED, CHUNKED, body=IN_CHUNKS),
    "chunked, not last": with_fields(b"transfer-encoding: chunked, gzip\r\n", body=IN_CHUNKS),
    "identity": with_fields(b"transfer-encoding: identity\r\n", LENGTH),
    "no chunk size": with_fields(CHUNKED, body=b"\r\n" + IN_CHUNKS),
    "bad chunk size": with_fields(CHUNKED, body=b"zz" + IN_CHUNKS),
    "negative chunk size": with_fields(CHUNKED, body=b"-" + IN_CHUNKS),
    "prefixed chunk size": with_fields(CHUNKED, body=b"0x" + IN_CHUNKS),
    "chunk size over 64 bits": with_fields(CHUNKED, body=b"FFFFFFFFFFFFFFFFF\r\n"),
    "chunk too short": with_fields(CHUNKED, body=b"1" + IN_CHUNKS[1:] + GET * 9),
    "chunk too long": with_fields(CHUNKED, body=IN_CHUNKS.replace(b"\r\n0", b"}\r\n0")),
    "chunk size ends in line feed": with_fields(CHUNKED, body=IN_CHUNKS.replace(b"\r\n", b"\n", 1)),
    "chunk extension ends in line feed": with_fields(
        CHUNKED, body=IN_CHUNKS.replace(b"\r\n", b";a\n", 1)
    ),
}


@pytest.mark.parametrize("shapes", [NOT_HTTP, SMUGGLED], ids=["not HTTP", "smuggled"])
async def test_what_has_no_one_meaning_is_refused(
    gateway: Gateway, upstream: FakeUpstream, shapes: dict[str, bytes]
) -> None:
    """With 400 and the end of the connection, so that nothing after it is read as a request."""
    seen = {}
    async with unharmed(gateway, upstream):
        for name, data in shapes.items():
            async with raw_client(gateway) as client:
                await client.send(data + GET)
                seen[name] = await refused(client)
    assert seen == dict.fromkeys(shapes, (400, "bad_http", b""))


async def refused(client: RawClient) -> tuple[int, str, bytes]:
    """Return status and code of a reply, and what comes after it until the end."""
    answer = await client.answer()
    assert answer.headers["connection"] == "close"
    return answer.status, error_of(answer)["code"], await client.rest()


async def test_where_a_request_is_cut_does_not_matter(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Misses and repeats, in a body with a length or in chunks, are the same in any pieces."""
    requests = [request(BODY), with_fields(CHUNKED, body=IN_CHUNKS), request(BODY)]
    answers = []
    async with raw_client(gateway) as client:
        for cut in (1, 7, 40, 4_000):
            for data in requests:
                for start in range(0, len(data), cut):
                    await client.send(data[start : start + cut])
                    await asyncio.sleep(0)
                answers.append(await client.answer())
    assert [answer.headers["x-cache"] for answer in answers] == ["MISS", *["HIT"] * 11]
    assert len({answer.body for answer in answers}) == 1
    assert upstream.call_count == 1


async def test_pipelined_requests_are_answered_in_order(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Repeats do not overtake what is still asked, whatever lies between them."""
    stored = await gateway.ask("stored")
    texts = ["stored", "slow", "stored", "stored", "new", "stored"]
    slow = asyncio.Event()
    upstream.scripts["held"] = Script(hold=slow)
    bodies = [question(text, model="held" if text == "slow" else "fake") for text in texts]
    async with raw_client(gateway) as client:
        await client.send(b"".join(request(body) for body in bodies) + GET)
        first = await client.answer()
        await upstream.wait_for_calls(2)
        slow.set()
        answers = [first, *[await client.answer() for _ in texts]]
    assert [told(answer) for answer in answers[:-1]] == [f"echo: {text}" for text in texts]
    assert [answer.headers.get("x-cache") for answer in answers] == [
        *["HIT", "MISS", "HIT", "HIT", "MISS", "HIT"],
        None,
    ]
    assert first.body == stored.body
    assert answers[-1].body == b'{"status":"ok"}'


def told(answer: Answer) -> str:
    content: str = json.loads(answer.body)["choices"][0]["message"]["content"]
    return content.partition("] ")[2]


@pytest.mark.parametrize("nonsense", [b"\0nonsense\r\n\r\n", SMUGGLED["two lengths"]])
async def test_nonsense_behind_a_request_does_not_take_its_answer(
    gateway: Gateway, upstream: FakeUpstream, nonsense: bytes
) -> None:
    """The request before it is answered, in its turn, and the connection ends."""
    hold = asyncio.Event()
    upstream.scripts["held"] = Script(hold=hold)
    async with raw_client(gateway) as client:
        await client.send(request(question("hi", model="held")) + nonsense)
        async with asyncio.timeout(10):
            await upstream.wait_for_calls(1)
        hold.set()
        assert told(await client.answer()) == "echo: hi"
        assert await client.rest() == b""
    assert upstream.call_count == 1


async def test_a_head_without_end_is_refused(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Be it one field, many, or the target; before it is complete."""
    endless = {
        "value": head() + b"x-long: " + b"a" * 500_000,
        "name": head() + b"a" * 500_000,
        "fields": head() + b"".join(b"x-%d: a\r\n" % number for number in range(50_000)),
        "target": b"GET /" + b"a" * 500_000,
        "chunk extension": with_fields(CHUNKED, body=b"2;" + b"a" * 500_000),
        "trailer": with_fields(CHUNKED, body=IN_CHUNKS[:-2] + b"x-long: " + b"a" * 500_000),
    }
    seen = {}
    async with unharmed(gateway, upstream):
        for name, data in endless.items():
            async with raw_client(gateway) as client:
                await client.send(data)
                seen[name] = await refused(client)
    assert seen == dict.fromkeys(endless, (431, "header_too_large", b""))


async def test_a_long_head_is_served(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Cookies and traces of some tens of kilobytes are nothing unusual."""
    cookie = b"cookie: " + b"a" * 50_000 + b"\r\n"
    async with raw_client(gateway) as client:
        await client.send(request(BODY, fields=cookie))
        assert (await client.answer()).status == 200
    assert "cookie" not in dict(upstream.calls[-1].headers)


async def test_fields_with_odd_bytes_arrive(gateway: Gateway, upstream: FakeUpstream) -> None:
    """They are the caller's, part of the key where they are ours, and never cut."""
    odd = [
        b"x-stepwell-tags: caf\xc3\xa9\r\n",
        b"x-stepwell-tags: caf\xe9\r\n",
        b"user-agent: \xff\r\n",
    ]
    caches = []
    async with raw_client(gateway) as client:
        for fields in odd * 2:
            await client.send(request(BODY, fields=fields))
            caches.append((await client.answer()).headers["x-cache"])
    assert caches == ["MISS", *["HIT"] * 5]
    assert upstream.call_count == 1


CONTROLS: dict[str, dict[str, Any]] = {
    "class": {"metadata": {"stepwell_class": "general\r\nx-injected: 1"}},
    "tags": {"metadata": {"stepwell_tags": "a\r\n\r\nHTTP/1.1 200 OK"}},
    "sources": {"metadata": {"stepwell_sources": "faq=1\nx: 2"}},
    "namespace": {"cache": {"namespace": "a\r\nx-injected: 1"}},
}


async def test_no_line_end_gets_out_of_a_body(gateway: Gateway, upstream: FakeUpstream) -> None:
    """What may end up in a field of the reply or of the upstream's request holds none."""
    async with unharmed(gateway, upstream):
        for control in CONTROLS.values():
            answer = await gateway.post(question("hi", **control))
            assert (answer.status, error_of(answer)["code"]) == (400, "invalid_control")


async def test_no_line_end_gets_into_the_upstreams_request(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """A query is sent on as it came, escaped."""
    path = "/v1/chat/completions?a=%0d%0ax-injected:%201&b=%00"
    async with raw_client(gateway) as client:
        await client.send(request(BODY, path=path))
        assert (await client.answer()).status == 200
    received = upstream.calls[-1]
    assert received.query == path.partition("?")[2]
    assert "x-injected" not in dict(received.headers)


async def test_a_trailer_is_not_part_of_the_head(gateway: Gateway, upstream: FakeUpstream) -> None:
    """What a proxy in front has checked in the head must not be said anew behind the body."""
    trailer = (
        b"authorization: Bearer sk-other\r\ncache-control: no-store\r\nx-stepwell-class: no\r\n"
    )
    body = IN_CHUNKS[:-2] + trailer + b"\r\n"
    plain = request(BODY)
    async with raw_client(gateway) as client:
        for expected in ("MISS", "HIT"):
            await client.send(with_fields(CHUNKED, body=body))
            assert (await client.answer()).headers["x-cache"] == expected
        await client.send(plain)
        assert (await client.answer()).headers["x-cache"] == "HIT"
    assert dict(upstream.calls[-1].headers)["authorization"] == "Bearer sk-test"


@pytest.mark.parametrize("offer", [b"h2c", b"websocket", b"TLS/1.2"])
async def test_an_offered_upgrade_is_declined(
    gateway: Gateway, upstream: FakeUpstream, offer: bytes
) -> None:
    """Java's client offers HTTP/2 in each first request; such a request is one like any other."""
    fields = (
        b"connection: Upgrade, HTTP2-Settings\r\nupgrade: %b\r\nhttp2-settings: AAE\r\n" % offer
    )
    in_chunks = with_fields(fields, CHUNKED, body=IN_CHUNKS)
    split = request(BODY, fields=fields)
    seen = []
    async with raw_client(gateway) as client:
        await client.send(request(BODY, fields=fields) + request(BODY) + in_chunks)
        seen += [(await client.answer()).headers["x-cache"] for _ in range(3)]
        await client.send(split[: -len(BODY)])
        await asyncio.sleep(0.01)
        await client.send(
            split[-len(BODY) :] + GET.replace(b"\r\n\r\n", b"\r\n" + fields + b"\r\n")
        )
        seen += [(await client.answer()).headers.get("x-cache") for _ in range(2)]
    assert seen == ["MISS", "HIT", "HIT", "HIT", None]
    assert upstream.call_count == 1
    assert "upgrade" not in dict(upstream.calls[-1].headers)


async def test_many_offered_upgrades_in_one_piece(gateway: Gateway, upstream: FakeUpstream) -> None:
    """However many there are, each is answered."""
    offer = b"GET /healthz HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    async with raw_client(gateway) as client:
        await client.send(offer * 2_000)
        for _ in range(2_000):
            assert (await client.answer()).status == 200


async def test_a_client_that_asks_first_is_told_to_go_on(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """``Expect: 100-continue``: miss or repeat."""
    async with raw_client(gateway) as client:
        for expected in ("MISS", "HIT"):
            await client.send(head() + b"expect: 100-continue\r\n" + LENGTH + b"\r\n")
            assert (await client.head())[0] == 100
            await client.send(BODY)
            assert (await client.answer()).headers["x-cache"] == expected


async def test_http_1_0(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Answered whole, and the connection ends; a repeat too."""
    for expected in ("MISS", "HIT"):
        async with raw_client(gateway) as client:
            await client.send(request(BODY, version="1.0"))
            answer = await client.answer()
            assert (answer.status, answer.headers["x-cache"]) == (200, expected)
            assert (answer.headers["connection"], await client.rest()) == ("close", b"")


async def test_a_connection_that_is_to_be_closed(gateway: Gateway, upstream: FakeUpstream) -> None:
    """It is, after the answer; what follows the request is not answered."""
    for expected in ("MISS", "HIT"):
        async with raw_client(gateway) as client:
            await client.send(request(BODY, fields=b"connection: close\r\n") + request(BODY))
            answer = await client.answer()
            assert answer.headers["x-cache"] == expected
            assert (answer.headers["connection"], await client.rest()) == ("close", b"")
    assert upstream.call_count == 1


class NoApplication:
    """What the protocol asks of its application, for a connection without requests."""

    hot = None
    request_timeout_seconds = 1.0
    drain = Drain(0.0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer nothing."""


async def test_replies_are_not_held_back_by_the_kernel() -> None:
    """A head and a body are sent without waiting for each other, whoever made the socket."""
    config = uvicorn.Config(NoApplication(), http=GatewayProtocol, proxy_headers=False)
    config.load()
    made: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    class Watched(GatewayProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            made.set_result(transport)

    server = await asyncio.get_running_loop().create_server(
        lambda: Watched(config, ServerState(), {}), sock=socket.create_server(("127.0.0.1", 0))
    )
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async with asyncio.timeout(10):
        transport = await made
    accepted = transport.get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    for end in (transport, writer, server):
        end.close()
    await server.wait_closed()


async def test_head_has_no_body(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Neither a refusal nor an answer: the next reply must be found where it begins."""
    async with unharmed(gateway, upstream), raw_client(gateway) as client:
        await client.send(GET.replace(b"GET", b"HEAD") + head().replace(b"POST", b"HEAD") + b"\r\n")
        assert (await client.answer(to_head=True)).status == 200
        assert (await client.answer(to_head=True)).status == 405
        await client.send(GET)
        assert (await client.answer()).body == b'{"status":"ok"}'
