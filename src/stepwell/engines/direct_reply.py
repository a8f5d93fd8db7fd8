"""A reply on a connection of our own, while its body is still coming."""

import asyncio
from typing import Protocol

from stepwell.engines.deadline import Deadline

HIGH_WATER_BYTES = 262_144
"""How much of a body waits for its reader before the server has to."""


class Source(Protocol):
    """The connection that a reply comes over."""

    def drop(self) -> None:
        """Close it: the reply is not wanted any more."""
        ...

    def resume_reading(self) -> None:
        """Go on: the reader has caught up."""
        ...


class DirectReply:
    """Implements `stepwell.engines.http_transport.TransportReply`.

    Its connection writes it, by `begin`, `feed`, `finish` and `fail`; one task reads it.
    """

    __slots__ = (
        "_chunk_timeout_seconds",
        "_deadline",
        "_error",
        "_is_complete",
        "_pieces",
        "_source",
        "_waiter",
        "raw_fields",
        "status",
        "waiting_bytes",
    )

    def __init__(self, source: Source, deadline: Deadline, *, chunk_timeout_seconds: float) -> None:
        self.status = 0
        self.raw_fields: list[tuple[bytes, bytes]] = []
        self.waiting_bytes = 0
        self._source: Source | None = source
        self._deadline = deadline
        self._chunk_timeout_seconds = chunk_timeout_seconds
        self._pieces: list[bytes] = []
        self._is_complete = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def begin(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        """Take the head."""
        self.status = status
        self.raw_fields = fields
        self._wake()

    def feed(self, data: bytes) -> None:
        """Take a piece of the body."""
        self._pieces.append(data)
        self.waiting_bytes += len(data)
        self._wake()

    def finish(self) -> None:
        """Take the end: the connection is no longer this reply's."""
        self._source = None
        self._is_complete = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """Let reading raise ``error``, after what came before it."""
        self._source = None
        self._error = error
        self._wake()

    def change(self, timeout_seconds: float) -> asyncio.Future[None]:
        """Return a future that is done when something comes; in time, or the reply fails."""
        self._deadline.set(timeout_seconds)
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def check(self) -> None:
        """Raise the error that the reply has failed with, if it has.

        Raises:
            TimeoutError: Something did not come in time.
            Broken: The connection ended too early.
        """
        if self._error is not None:
            raise self._error

    async def read(self) -> bytes:
        """Return what has come of the body, waiting only if nothing has; nothing at its end.

        Raises:
            TimeoutError: Nothing came in time.
            Broken: The connection ended before the body did.
        """
        while not self._pieces:
            self.check()
            if self._is_complete:
                return b""
            await self.change(self._chunk_timeout_seconds)
        return self._taken()

    def close(self) -> None:
        """Drop the connection, unless the body has come whole."""
        source, self._source = self._source, None
        self._pieces.clear()
        self.waiting_bytes = 0
        if source is not None:
            source.drop()

    def _taken(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self.waiting_bytes > HIGH_WATER_BYTES and self._source is not None:
            self._source.resume_reading()
        self.waiting_bytes = 0
        return data

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            # Now, and not when the reader runs: by then the deadline may be another reply's.
            self._deadline.clear()
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
