"""A client that sends any bytes, and tells the replies in what comes back."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from stepwell.testing.fake_upstream import FakeUpstream
from support.gateway import Answer, Gateway

TIMEOUT_SECONDS = 10.0
"""A test that waits longer for bytes has failed."""


class RawClient:
    """One connection. Sends bytes as they are; reads HTTP/1.1 replies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send ``data``."""
        self.writer.write(data)
        await self.writer.drain()

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self.writer.write_eof()

    def reset(self) -> None:
        """Leave at once."""
        self.writer.transport.abort()

    async def answer(self, *, to_head: bool = False) -> Answer:
        """Read one whole reply; ``to_head``: it has no body whatever it says."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            status, headers = await self.head()
            return Answer(status, headers, b"" if to_head else await self._body(headers))

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the head of a reply: status and fields by lower-case name."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        fields = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        return int(status_line.split(" ")[1]), headers

    async def chunk(self) -> bytes:
        """Read one chunk of a chunked body; empty at its end."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return body

    async def rest(self) -> bytes:
        """Return all that comes until the gateway closes the connection, or resets it."""
        rest = b""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(1 << 16):
                    rest += piece
        return rest


@contextlib.asynccontextmanager
async def raw_client(gateway: Gateway) -> AsyncIterator[RawClient]:
    """Connect to a gateway."""
    address = urlsplit(gateway.origin)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 26)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


def request(
    body: Any,
    *,
    path: str = "/v1/chat/completions",
    version: str = "1.1",
    fields: bytes = b"",
) -> bytes:
    """Return a whole request; ``body`` is JSON, or bytes as they are.

    Args:
        body: What to ask.
        path: Target.
        version: Of HTTP.
        fields: More header lines, each with its line end.
    """
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (head(path, version), fields, len(raw), raw)


def head(path: str = "/v1/chat/completions", version: str = "1.1") -> bytes:
    """Return the beginning of a request with a body: further fields and a blank line can follow."""
    line = f"POST {path} HTTP/{version}\r\n"
    fields = "host: gateway\r\nauthorization: Bearer sk-test\r\ncontent-type: application/json\r\n"
    return (line + fields).encode()


def error_of(answer: Answer) -> dict[str, Any]:
    """Return the error object of a reply, which must have OpenAI's form."""
    assert answer.headers["content-type"] == "application/json"
    body = json.loads(answer.body)
    assert list(body) == ["error"]
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["type"]
    return error


@contextlib.asynccontextmanager
async def unharmed(gateway: Gateway, upstream: FakeUpstream) -> AsyncIterator[None]:
    """Check that what runs inside asks the model server nothing, and that the gateway goes on.

    Where nothing is asked, nothing can be stored.
    """
    calls = upstream.call_count
    yield
    assert upstream.call_count == calls
    assert (await gateway.ask("Are you still there?")).status == 200
