"""One upstream call that several requests read.

A flight is written by one task and read by any number of requests, each from its first byte on,
as the bytes come. The writer is nobody's request: a reader that leaves takes no other along, and
when the last one has left, the call is cancelled, so that the model server stops.

One event loop; nothing here is thread-safe.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from stepwell.core.entry import Entry, Usage
from stepwell.core.errors import RequestError, UpstreamBroken, UpstreamError
from stepwell.core.names import Form
from stepwell.core.ports import Headers
from stepwell.core.steering import SupportsNotes
from stepwell.pipeline.fill import Made


@dataclass(frozen=True, slots=True)
class Head:
    """How a reply begins."""

    status: int
    headers: Headers
    form: Form
    notes: SupportsNotes | None = None
    """Has something to say about the call, if it was made here; for the trail."""


@dataclass(frozen=True, slots=True)
class Landed:
    """The reply came to its end."""

    entry: Entry | None
    """The answer as an entry, if it passed the write gates."""
    gate: str = ""
    """The gate that refused it, if one was asked."""
    usage: Usage | None = None
    """Tokens of an answer that is no entry, if it says."""
    upstream_seconds: float = 0.0
    """How long such an answer took, if another made the call and says."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The reply did not come, or not to its end."""

    error: UpstreamError | RequestError
    """A `RequestError` where HTTP cannot carry what the caller wants sent."""


End = Landed | Crashed

_LAST_EVENT = b"data: [DONE]"

MAX_LAG_BYTES = 1 << 20
"""How far a reply that is no longer kept whole may run ahead of its slowest reader."""


class Flight:
    """What the writer and the readers share.

    The body is kept from its start while it is at most ``max_kept_bytes`` long. Past that the
    answer can be neither stored nor joined any more: bytes that every reader has had are dropped,
    and the writer waits for slow readers, so memory stays bounded.
    """

    def __init__(self, made: Made, *, max_kept_bytes: int) -> None:
        self.made = made
        self.head: Head | None = None
        self.end: End | None = None
        self.kept_whole = True
        self.stopped = False
        """Everybody has left: the call is being cancelled, and must not be joined."""
        self.borrowed = False
        """The reply is another worker's, or was stored by one meanwhile: no call was made here."""
        self._max_kept_bytes = max_kept_bytes
        self._chunks: list[bytes] = []
        self._dropped = 0
        """Chunks dropped so far; chunk ``i`` of the reply is ``_chunks[i - _dropped]``."""
        self._pending_bytes = 0
        """Bytes in ``_chunks``."""
        self._readers: set[Reader] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._writer: asyncio.Task[None] | None = None

    def start(self, write: Callable[["Flight"], Awaitable[None]]) -> None:
        """Start the writer. ``write`` calls `begin`, `extend` and, unless cancelled, `finish`."""
        self._writer = asyncio.create_task(self._write(write))

    async def _write(self, write: Callable[["Flight"], Awaitable[None]]) -> None:
        try:
            await write(self)
        finally:
            if self.end is None:
                # Only a cancelled writer ends without a word. Nobody reads then, except when the
                # whole program is being stopped.
                self.finish(Crashed(UpstreamBroken("The call was cancelled.", upstream="")))

    def begin(self, head: Head) -> None:
        """Say how the reply begins."""
        self.head = head
        self._wake()

    async def extend(self, chunk: bytes) -> None:
        """Add bytes of the body; waits only while a reply too large to be kept is not read."""
        self._chunks.append(chunk)
        self._pending_bytes += len(chunk)
        self._wake()
        if self._pending_bytes > self._max_kept_bytes:
            self.kept_whole = False
        while not self.kept_whole and self._pending_bytes > MAX_LAG_BYTES:
            self._drop_what_all_have()
            if self._pending_bytes > MAX_LAG_BYTES:
                await self.change()

    def finish(self, end: End) -> None:
        """Say how the reply ended."""
        self.end = end
        self._wake()

    def body(self) -> bytes:
        """Return the whole body. Only while ``kept_whole``."""
        return b"".join(self._chunks)

    def join(self) -> "Reader":
        """Return a reader that starts at the first byte. Only while ``kept_whole``."""
        reader = Reader(self)
        self._readers.add(reader)
        return reader

    def leave(self, reader: "Reader") -> None:
        """Let ``reader`` go; the last one to leave before the end stops the call.

        Not if the end has been announced: many clients hang up there, and the answer is whole.
        """
        self._readers.discard(reader)
        self._wake()
        if self._readers or self.end is not None or self._writer is None:
            return
        if not (self.kept_whole and self.end_announced()):
            self.stopped = True
            self._writer.cancel()

    def end_announced(self) -> bool:
        """Return whether the last event of a stream is there. Only while ``kept_whole``."""
        return b"".join(self._chunks[-2:]).rstrip().endswith(_LAST_EVENT)

    def chunk(self, index: int) -> bytes | None:
        """Return chunk ``index`` of the reply, or ``None`` if it has not come yet."""
        place = index - self._dropped
        return self._chunks[place] if place < len(self._chunks) else None

    async def change(self) -> None:
        """Wait until something happens: a head, a chunk, an end, a reader that read or left."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    async def over(self) -> End:
        """Wait for the end as a bystander: the call does not go on for it, nor wait for it."""
        while self.end is None:
            await self.change()
        return self.end

    def has_read(self) -> None:
        """Note that a reader moved on; wakes a writer that waits for it."""
        if not self.kept_whole:
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _drop_what_all_have(self) -> None:
        had_by_all = min((reader.position for reader in self._readers), default=self._dropped)
        gone = self._chunks[: had_by_all - self._dropped]
        self._pending_bytes -= sum(map(len, gone))
        self._dropped += len(gone)
        del self._chunks[: len(gone)]


class Reader:
    """One request's view of a flight. Must `leave`, however it ends."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self.position = 0
        """Chunks had so far."""

    async def head(self) -> Head:
        """Return the reply's head, when it is there.

        Raises:
            UpstreamError: The call failed before there was one.
            RequestError: The call could not be sent.
        """
        flight = self._flight
        while flight.head is None:
            if isinstance(flight.end, Crashed):
                raise flight.end.error
            await flight.change()
        return flight.head

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body from its start, as it comes.

        Raises:
            UpstreamError: The call failed before the body's end.
        """
        flight = self._flight
        while True:
            chunk = flight.chunk(self.position)
            if chunk is not None:
                self.position += 1
                flight.has_read()
                yield chunk
            elif flight.end is None:
                await flight.change()
            elif isinstance(flight.end, Crashed):
                raise flight.end.error
            else:
                return

    async def pieces(self, at_least_bytes: int) -> AsyncIterator[bytes]:
        """As `chunks`, but what has come meanwhile is one piece, up to about that size."""
        flight = self._flight
        async for chunk in self.chunks():
            parts, size = [chunk], len(chunk)
            while size < at_least_bytes and (more := flight.chunk(self.position)) is not None:
                self.position += 1
                parts.append(more)
                size += len(more)
            flight.has_read()
            yield b"".join(parts)

    async def landed(self) -> Landed:
        """Wait for the end, without taking the body.

        Raises:
            UpstreamError: The call failed.
        """
        flight = self._flight
        self.position = sys.maxsize  # What is not read must not hold the writer up.
        flight.has_read()
        end = await flight.over()
        if isinstance(end, Crashed):
            raise end.error
        return end

    def leave(self) -> None:
        """Stop reading. May be called twice."""
        self._flight.leave(self)
