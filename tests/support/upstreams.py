"""What tests of `HttpUpstream` share: calls, replies read, and servers that send any bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from stepwell.core.events import Event, UpstreamFailed
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call, Headers
from stepwell.engines.http import HttpUpstream
from stepwell.engines.http_reply import HttpReply
from support.raw_server import Handler, serving

MakeUpstream = Callable[..., HttpUpstream]
"""Takes a base URL, and settings by name."""

CALL = Call(Endpoint.CHAT, b'{"model":"fake","messages":[]}', ())
"""The least of calls, for servers that do not read it."""


class Events:
    """Keeps what was emitted."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    def emit(self, event: Event) -> None:
        self.seen.append(event)


def failure(kind: str) -> UpstreamFailed:
    """Return the event of one failure."""
    return UpstreamFailed("main", kind)


def make_call(model: str = "fake", *, headers: Headers = (), query: str = "", **body: Any) -> Call:
    """Return a call that a fake upstream understands."""
    asked = {"model": model, "messages": [{"role": "user", "content": "one two three"}], **body}
    return Call(Endpoint.CHAT, json.dumps(asked).encode(), headers, query)


async def read(reply: HttpReply) -> bytes:
    """Return a reply's whole body, and close it."""
    try:
        return b"".join([chunk async for chunk in reply.chunks()])
    finally:
        await reply.aclose()


async def ask(upstream: HttpUpstream, call: Call = CALL) -> bytes:
    """Send a call and return the whole body of its reply."""
    return await read(await upstream.send(call))


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read `CALL` as it comes; return its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(len(CALL.body))
    return head


@asynccontextmanager
async def raw_server(handler: Handler, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Serve each connection by ``handler``, which then closes it; yield the base URL."""
    async with serving(handler, host) as port:
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
