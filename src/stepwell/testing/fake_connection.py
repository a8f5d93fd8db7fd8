"""The fake upstream's side of one connection: just enough HTTP/1.1, by hand.

By hand, because a test's server must be able to do what no HTTP library allows.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""``SO_LINGER`` on, zero seconds: closing sends a reset in place of an orderly end."""


@dataclass(slots=True)
class Received:
    """One request as it came."""

    method: str
    path: str
    """Without the query."""
    query: str
    headers: tuple[tuple[str, str], ...]
    """In order; names in lower case."""
    body: bytes
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client left before its answer was complete."""

    def json(self) -> dict[str, Any]:
        """Return the body, parsed; ``{}`` if there is none."""
        parsed: dict[str, Any] = json.loads(self.body or b"{}")
        return parsed


class Connection(asyncio.Protocol):
    """Reads requests one after the other and has each answered before it reads the next.

    Understands bodies with a ``content-length`` only, which is what HTTP clients send for JSON.
    """

    def __init__(
        self,
        reply: Callable[[Received, "Connection"], Awaitable[None]],
        connections: set["Connection"],
    ) -> None:
        """Answer by ``reply``; be a member of ``connections`` while open."""
        self._reply = reply
        self._connections = connections
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._answering: asyncio.Task[None] | None = None
        self._received: Received | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Answer the next request, once it is whole."""
        self._buffer += data
        self._answer_next()

    def pause_writing(self) -> None:
        """Let `write` wait: the client does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `write` go on."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop answering: nobody listens."""
        del exc
        self._connections.discard(self)
        self._transport = None
        if self._received is not None:
            self._received.abandoned.set()
        if self._answering is not None:
            self._answering.cancel()

    async def write(self, data: bytes) -> None:
        """Send ``data``, and wait while the client is slow to read, or for the end if it left."""
        if self._transport is None or self._transport.is_closing():
            await asyncio.Event().wait()
        else:
            self._transport.write(data)
            await self._writable.wait()

    def drop(self, *, reset: bool = False) -> None:
        """Close the connection after what was written, or reset it at once."""
        self._received = None
        if self._transport is None:
            return
        if reset:
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
            )
            self._transport.abort()
        else:
            self._transport.close()

    async def aclose(self) -> None:
        """End the connection at once, and the answer in progress."""
        if self._transport is not None:
            self._transport.abort()
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait([self._answering])

    def _answer_next(self) -> None:
        if self._answering is not None:
            return
        head, blank_line, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not blank_line:
            return
        received = _parse(head)
        length = int(dict(received.headers).get("content-length", "0"))
        if len(rest) < length:
            return
        received.body = rest[:length]
        self._buffer = bytearray(rest[length:])
        self._received = received
        self._answering = asyncio.get_running_loop().create_task(self._reply_to(received))

    async def _reply_to(self, received: Received) -> None:
        try:
            await self._reply(received, self)
        except BaseException:
            self.drop()
            raise
        self._received = None
        self._answering = None
        self._answer_next()


def _parse(head: bytes) -> Received:
    request_line, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = request_line.split(" ")
    path, _, query = target.partition("?")
    fields = (line.partition(":") for line in lines)
    headers = tuple((name.lower(), value.strip()) for name, _, value in fields)
    return Received(method, path, query, headers, b"")
