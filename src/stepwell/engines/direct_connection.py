"""One HTTP/1.1 connection: writes a request, has the reply parsed, one exchange at a time."""

import asyncio
import select
from typing import Protocol, cast

from stepwell.engines.deadline import Deadline
from stepwell.engines.direct_parser import NotHttp, ReplyParser
from stepwell.engines.direct_reply import HIGH_WATER_BYTES, DirectReply
from stepwell.engines.http_transport import Broken

_PIECE_BYTES = 65_536
"""Of a request's body: how much is given to the transport at once."""


class Owner(Protocol):
    """Hears what becomes of a connection."""

    def on_free(self, connection: "Connection") -> None:
        """Its exchange is over and it can carry another."""
        ...

    def on_lost(self, connection: "Connection") -> None:
        """It is closed. Comes once, whatever happened."""
        ...


class Connection(asyncio.Protocol):
    """A connection of which the pool is the owner. Its methods are for one event loop."""

    def __init__(self, owner: Owner, *, chunk_timeout_seconds: float) -> None:
        self._owner = owner
        self._chunk_timeout_seconds = chunk_timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._lost = self._loop.create_future()
        self._parser = ReplyParser()
        self._deadline = Deadline(self._on_deadline)
        self._poll = select.poll()
        self._transport: asyncio.Transport
        self._reply: DirectReply | None = None
        self._was_used = False
        self._ended_in_order = False
        self._sent_at = 0.0
        self._unsent = memoryview(b"")
        self._may_write = True

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._transport.is_closing()

    def is_quiet(self) -> bool:
        """Return whether an idle or new connection is open and nothing has come over it.

        Asks the kernel too, in about a microsecond: what came while this process was busy is
        not with the protocol yet, and would be taken for the answer to the next request.
        """
        return not self._transport.is_closing() and not self._poll.poll(0)

    def keep(self, seconds: float) -> None:
        """Close it unless it is used within that time."""
        self._deadline.set(seconds)

    async def exchange(
        self, head: bytes, body: bytes, *, is_head: bool, timeout_seconds: float
    ) -> DirectReply:
        """Send a request and return when the reply's head is there.

        Args:
            head: All of it, with the empty line.
            body: May be empty. A large one is not copied: what the kernel does not take yet is
                sent when it does, while the reply may be coming already.
            is_head: The method is ``HEAD``.
            timeout_seconds: For the reply's head.

        Raises:
            TimeoutError: No head came in time.
            Broken: No head came.
        """
        reply = DirectReply(self, self._deadline, chunk_timeout_seconds=self._chunk_timeout_seconds)
        self._reply = reply
        self._parser.expect(reply, is_head=is_head)
        self._sent_at = self._loop.time()
        try:
            self._send(head, body)
            await reply.change(timeout_seconds)
            reply.check()
        except BaseException:
            reply.close()
            raise
        return reply

    def drop(self) -> None:
        """Close it at once, whatever is under way; a reply that is still read breaks off."""
        self._fail(Broken("the connection was closed here"))

    async def wait_closed(self) -> None:
        """Return when it is closed."""
        await asyncio.shield(self._lost)

    def resume_reading(self) -> None:
        """Go on after the reply's reader was too slow."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the reply. If none is awaited, they never become one: close."""
        reply = self._reply
        if reply is None:
            self._transport.abort()
            return
        try:
            self._parser.feed(data)
        except NotHttp as error:
            self._fail(Broken(str(error)))
            return
        if self._parser.complete:
            self._end()
        elif reply.waiting_bytes > HIGH_WATER_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """Note that the server ended the connection in order."""
        self._ended_in_order = True
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everyone who waits."""
        self._deadline.close()
        reply, self._reply = self._reply, None
        if reply is not None and not (self._ended_in_order and self._parser.end()):
            reply.fail(self._broken(exc))
        self._unsent = memoryview(b"")
        self._lost.set_result(None)
        self._owner.on_lost(self)

    def pause_writing(self) -> None:
        """Wait: the server does not read."""
        self._may_write = False

    def resume_writing(self) -> None:
        """Go on."""
        self._may_write = True
        self._write_more()

    def _send(self, head: bytes, body: bytes) -> None:
        if len(body) <= _PIECE_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._write_more()

    def _write_more(self) -> None:
        while self._unsent and self._may_write and not self._transport.is_closing():
            piece, self._unsent = self._unsent[:_PIECE_BYTES], self._unsent[_PIECE_BYTES:]
            self._transport.write(piece)

    def _end(self) -> None:
        """Let the connection go: the reply has come whole."""
        self._reply = None
        is_sent = not self._unsent and not self._transport.get_write_buffer_size()
        if self._parser.reusable and is_sent:
            self._was_used = True
            self._owner.on_free(self)
        else:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.fail(error)
        self._transport.abort()

    def _on_deadline(self) -> None:
        """End an idle connection, or a reply of which no more came in time."""
        self._fail(TimeoutError())

    def _broken(self, error: Exception | None) -> Broken:
        reason = error.strerror if isinstance(error, OSError) else None
        stale_after_seconds = None
        if self._was_used and self._parser.untouched:
            stale_after_seconds = self._loop.time() - self._sent_at
        return Broken(reason or "the connection ended", stale_after_seconds=stale_after_seconds)
