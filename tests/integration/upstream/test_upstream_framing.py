"""Where a reply begins and ends: every way HTTP/1.1 has to say so, and what is none."""

import asyncio
import gzip
import socket
import struct
import zlib

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
from stepwell.engines.http import HttpUpstream

JSON = b"content-type: application/json\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\n" + JSON + b"transfer-encoding: chunked\r\n\r\n"
OPEN_END = b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\n"


def whole(body: bytes, *, start: bytes = b"HTTP/1.1 200 OK", fields: bytes = b"") -> bytes:
    return b"%b\r\n%b%bcontent-length: %d\r\n\r\n%b" % (start, JSON, fields, len(body), body)


class Server:
    """Gives the same reply to each request, in pieces if told so, and counts connections."""

    def __init__(self, reply: bytes, *, piece_bytes: int | None = None, then: str = "wait") -> None:
        self.connections = 0
        self._reply = reply
        self._piece_bytes = piece_bytes or len(reply)
        self._then = then

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            await read_request(reader)
            for start in range(0, len(self._reply), self._piece_bytes):
                writer.write(self._reply[start : start + self._piece_bytes])
                await asyncio.sleep(0)
            if self._then == "reset":
                await asyncio.sleep(0.02)  # what was sent is to arrive before the reset
                raw = writer.get_extra_info("socket")
                linger = struct.pack("ii", 1, 0)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if self._then != "wait":
                return


KEPT = {
    "content-length": (whole(b"[1]"), b"[1]"),
    "empty": (whole(b""), b""),
    "chunks": (CHUNKED + b"1\r\n[\r\n2\r\n1]\r\n0\r\n\r\n", b"[1]"),
    "chunk extensions": (CHUNKED + b'3;a="b";c\r\n[1]\r\n0;d\r\n\r\n', b"[1]"),
    "trailers": (CHUNKED + b"3\r\n[1]\r\n0\r\nx-trailer: 1\r\n\r\n", b"[1]"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "not modified": (b'HTTP/1.1 304 Not Modified\r\netag: "a"\r\n\r\n', b""),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx-hint: 1\r\n\r\n"
        + whole(b"[1]"),
        b"[1]",
    ),
    "1.0 kept": (
        whole(b"[1]", start=b"HTTP/1.0 200 OK", fields=b"connection: keep-alive\r\n"),
        b"[1]",
    ),
    "odd values": (whole(b"[1]", fields=b"x: a\x01\x7f\xff\r\nx:\r\n"), b"[1]"),
    "names in capitals": (whole(b"[1]").replace(b"content-", b"CONTENT-"), b"[1]"),
    "no reason phrase": (whole(b"[1]", start=b"HTTP/1.1 200 "), b"[1]"),
}

CLOSED = {
    "connection: close": (whole(b"[1]", fields=b"connection: close\r\n"), b"[1]"),
    "1.0": (whole(b"[1]", start=b"HTTP/1.0 200 OK"), b"[1]"),
    "ends with the connection": (OPEN_END + b"[1]", b"[1]"),
    "1.0, ends with the connection": (OPEN_END.replace(b"1.1", b"1.0") + b"[1]", b"[1]"),
    "ends with the connection, empty": (OPEN_END, b""),
    "chunks and close": (
        CHUNKED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + b"3\r\n[1]\r\n0\r\n\r\n",
        b"[1]",
    ),
}


@pytest.mark.parametrize("piece_bytes", [None, 1])
@pytest.mark.parametrize(("reply", "body"), KEPT.values(), ids=KEPT)
async def test_end_of_a_reply_is_known(
    reply: bytes, body: bytes, piece_bytes: int | None, make_upstream: MakeUpstream
) -> None:
    """However the body is framed, and wherever packets begin; then the connection goes on."""
    server = Server(reply, piece_bytes=piece_bytes)
    async with raw_server(server) as base_url:
        upstream = make_upstream(base_url)
        assert [await ask(upstream) for _ in range(3)] == [body] * 3
    assert server.connections == 1


@pytest.mark.parametrize(("reply", "body"), CLOSED.values(), ids=CLOSED)
async def test_connection_that_the_server_ends_is_not_used_again(
    reply: bytes, body: bytes, make_upstream: MakeUpstream
) -> None:
    """Whether the server announced it, or the body ends that way."""
    server = Server(reply, then="close")
    async with raw_server(server) as base_url:
        upstream = make_upstream(base_url)
        assert [await ask(upstream) for _ in range(2)] == [body] * 2
    assert server.connections == 2


async def test_announced_close_is_believed_at_once(make_upstream: MakeUpstream) -> None:
    """Even if the server takes its time to close."""
    server = Server(whole(b"[1]", fields=b"connection: close\r\n"))
    async with raw_server(server) as base_url:
        upstream = make_upstream(base_url)
        assert [await ask(upstream) for _ in range(2)] == [b"[1]"] * 2
    assert server.connections == 2


async def test_interim_fields_and_trailers_are_not_the_replys(make_upstream: MakeUpstream) -> None:
    """They are neither shown to the caller nor do they change the framing."""
    hints = b"HTTP/1.1 103 Early Hints\r\nx-hint: 1\r\ncontent-length: 9\r\n\r\n"
    trailers = b"x-trailer: 1\r\nconnection: x-other\r\n\r\n"
    async with raw_server(Server(hints + CHUNKED + b"3\r\n[1]\r\n0\r\n" + trailers)) as base_url:
        reply = await make_upstream(base_url).send(CALL)
        assert await read(reply) == b"[1]"
    assert reply.headers == (("content-type", "application/json"),)


async def test_reply_to_head_ends_with_its_head(make_upstream: MakeUpstream) -> None:
    """Its length is that of the body that GET would have."""
    head, _, _ = whole(bytes(1_000)).partition(b"\r\n\r\n")

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head + b"\r\n\r\n")

    async with raw_server(handler) as base_url:
        upstream = make_upstream(base_url)
        for _ in range(2):
            reply = await upstream.forward("HEAD", "models", "", (), b"")
            assert (reply.status, await read(reply)) == (200, b"")


HEADS = {
    "other protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "impossible status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "switched protocols": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n"
    b"connection: upgrade\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n[1]",
    "length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-length: 3\r\n\r\n"),
    "no number": b"HTTP/1.1 200 OK\r\ncontent-length: 3x\r\n\r\n[1]",
    "negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -3\r\n\r\n[1]",
    "endless length": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n[1]",
    "no name": b"HTTP/1.1 200 OK\r\n: value\r\n\r\n",
    "space in a name": b"HTTP/1.1 200 OK\r\nx y: value\r\n\r\n",
    "null in a value": b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
    "long field": b"HTTP/1.1 200 OK\r\nx: " + b"v" * 100_000 + b"\r\n\r\n",
    "long name": b"HTTP/1.1 200 OK\r\n" + b"v" * 100_000 + b": x\r\n\r\n",
    "long reason": b"HTTP/1.1 200 " + b"v" * 100_000 + b"\r\n\r\n",
    "endless field": b"HTTP/1.1 200 OK\r\nx: " + b"v" * 1_000_000,
    "gzip inside chunks": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
    "gzip outside chunks": CHUNKED.replace(b"chunked", b"chunked, gzip") + b"0\r\n\r\n",
}


@pytest.mark.parametrize("reply", HEADS.values(), ids=HEADS)
async def test_head_that_is_none_raises_broken(
    reply: bytes, make_upstream: MakeUpstream, events: Events
) -> None:
    """In doubt where a reply ends there is no reply; it is not asked for again."""
    server = Server(reply)
    async with raw_server(server) as base_url:
        with pytest.raises(UpstreamBroken) as caught:
            await make_upstream(base_url, first_byte_timeout_seconds=5.0).send(CALL)
    assert "vvv" not in str(caught.value)
    assert server.connections == 1
    assert events.seen == [failure("broken")]


BODIES = {
    "cut off": (whole(b"[1]")[:-1], "close"),
    "cut off by a reset": (whole(b"[1]")[:-1], "reset"),
    "cut off between chunks": (CHUNKED + b"3\r\n[1]\r\n", "close"),
    "cut off inside a chunk": (CHUNKED + b"4\r\n[1]", "close"),
    "cut off inside trailers": (CHUNKED + b"3\r\n[1]\r\n0\r\nx: y\r\n", "close"),
    "chunk too long for a number": (CHUNKED + b"3\r\n[1]\r\n" + b"F" * 17 + b"\r\n[1]", "wait"),
    "chunk of negative length": (CHUNKED + b"3\r\n[1]\r\n-3\r\n[1]\r\n", "wait"),
    "chunk without a length": (CHUNKED + b"3\r\n[1]\r\nx\r\n", "wait"),
    "chunk longer than it says": (CHUNKED + b"3\r\n[1]]\r\n0\r\n\r\n", "wait"),
    "endless trailer": (CHUNKED + b"3\r\n[1]\r\n0\r\nx: " + b"v" * 1_000_000, "wait"),
}


@pytest.mark.parametrize(("reply", "then"), BODIES.values(), ids=BODIES)
async def test_body_that_does_not_end_as_it_should_raises_broken(
    reply: bytes, then: str, make_upstream: MakeUpstream, events: Events
) -> None:
    """A part is never taken for the whole; the error comes, and no timeout."""
    async with raw_server(Server(reply, then=then)) as base_url:
        upstream = make_upstream(base_url, chunk_timeout_seconds=5.0)
        with pytest.raises(UpstreamBroken, match="main broke off") as caught:
            await ask(upstream)
    assert "vvv" not in str(caught.value)
    assert events.seen == [failure("broken")]


@pytest.mark.parametrize(
    ("reply", "then"),
    [(OPEN_END + b"[1]", "reset"), (CHUNKED + b"3\r\n[1]\r\n3;" + b"v" * 1_000_000, "wait")],
    ids=["reset where an end would do", "endless extension of a chunk"],
)
async def test_direct_client_sees_what_aiohttp_does_not(
    reply: bytes, then: str, events: Events
) -> None:
    """aiohttp takes the first for a whole body, and waits for the end of the second."""
    async with raw_server(Server(reply, then=then)) as base_url:
        upstream = HttpUpstream("main", base_url, identity="test", events=events)
        with pytest.raises(UpstreamBroken, match="main broke off"):
            await ask(upstream)
        await upstream.aclose()


def compressed(coding: bytes, packed: bytes) -> bytes:
    return whole(packed, fields=b"content-encoding: %b\r\n" % coding)


RAW = zlib.compressobj(wbits=-15)
TEXT = b'"' + b"answer " * 1_000 + b'"'
CODED = {
    "gzip": (b"gzip", gzip.compress(TEXT)),
    "capitals": (b"GZip", gzip.compress(TEXT)),
    "deflate": (b"deflate", zlib.compress(TEXT)),
    "deflate without its frame": (b"deflate", RAW.compress(TEXT) + RAW.flush()),
    "identity": (b"identity", TEXT),
}


@pytest.mark.parametrize("piece_bytes", [None, 1])
@pytest.mark.parametrize(("coding", "packed"), CODED.values(), ids=CODED)
async def test_compressed_reply_is_decoded(
    coding: bytes, packed: bytes, piece_bytes: int | None, make_upstream: MakeUpstream
) -> None:
    """A server that compresses unasked is understood; its framing does not reach the caller."""
    server = Server(compressed(coding, packed), piece_bytes=piece_bytes)
    async with raw_server(server) as base_url:
        reply = await make_upstream(base_url).send(CALL)
        assert await read(reply) == TEXT
    assert reply.headers == (("content-type", "application/json"),)


async def test_compressed_stream_arrives_as_it_comes(make_upstream: MakeUpstream) -> None:
    """What a server has flushed can be read at once."""
    deflate = zlib.compressobj(wbits=31)
    resume = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OPEN_END.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n"))
        writer.write(deflate.compress(b"[1,") + deflate.flush(zlib.Z_SYNC_FLUSH))
        await resume.wait()
        writer.write(deflate.compress(b"2]") + deflate.flush())

    async with raw_server(handler) as base_url:
        reply = await make_upstream(base_url).send(CALL)
        chunks = reply.chunks()
        assert await anext(chunks) == b"[1,"
        resume.set()
        assert b"".join([chunk async for chunk in chunks]) == b"2]"
        await reply.aclose()


async def test_unpacking_does_not_keep_others_waiting(make_upstream: MakeUpstream) -> None:
    """However much a few bytes turn out to be, everybody has a turn between two pieces."""
    turns = pieces = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    packed = gzip.compress(bytes(30_000_000))
    async with raw_server(Server(compressed(b"gzip", packed))) as base_url:
        reply = await make_upstream(base_url).send(CALL)
        taking = asyncio.create_task(take_turns())
        async for _ in reply.chunks():
            pieces += 1
        taking.cancel()
        await reply.aclose()
    assert turns >= pieces > 100


async def test_small_reply_that_unpacks_to_much_comes_in_pieces(
    make_upstream: MakeUpstream,
) -> None:
    """No chunk is larger than it would be of an ordinary reply."""
    packed = gzip.compress(bytes(30_000_000))
    async with raw_server(Server(compressed(b"gzip", packed))) as base_url:
        reply = await make_upstream(base_url).send(CALL)
        sizes = [len(chunk) async for chunk in reply.chunks()]
        await reply.aclose()
    assert sum(sizes) == 30_000_000
    assert max(sizes) <= 1 << 16


@pytest.mark.parametrize(
    "packed",
    [
        gzip.compress(TEXT)[:-1],
        gzip.compress(TEXT)[:40],
        gzip.compress(TEXT) + b"more",
        gzip.compress(TEXT)[:-8] + bytes(8),
        TEXT,
    ],
    ids=["trailer cut off", "cut off", "bytes behind", "wrong checksum", "not packed"],
)
async def test_damaged_compression_raises_broken(
    packed: bytes, make_upstream: MakeUpstream, events: Events
) -> None:
    """Well framed, and yet no whole answer."""
    async with raw_server(Server(compressed(b"gzip", packed))) as base_url:
        reply = await make_upstream(base_url).send(CALL)
        with pytest.raises(UpstreamBroken, match="main broke off its answer"):
            await read(reply)
    assert events.seen == [failure("broken")]


@pytest.mark.parametrize("coding", [b"zip9", b"gzip, gzip", b"br", b"v" * 5_000])
async def test_unknown_coding_raises_broken(
    coding: bytes, make_upstream: MakeUpstream, events: Events
) -> None:
    """A coding that cannot be undone is never passed on as if it were the answer."""
    async with raw_server(Server(compressed(coding, b"[1]"))) as base_url:
        with pytest.raises(UpstreamBroken, match="main used content coding") as caught:
            await make_upstream(base_url).send(CALL)
    assert len(str(caught.value)) < 200
    assert events.seen == [failure("broken")]
