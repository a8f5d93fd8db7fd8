"""One connection to one server, on which many calls are under way at once.

A server answers in the order it was asked, so calls need no number and no connection of their own:
what is asked in one turn of the event loop leaves in one write, and what was asked first is
answered first. Thus there is no pool, and nobody ever waits for a connection.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import cast

import hiredis

from stepwell.core.errors import StoreFull, StoreUnavailable

Word = str | bytes | int | float
"""Of a command; numbers are written in decimal."""

Reply = None | int | bytes | list["Reply"] | hiredis.ReplyError
"""What a server says. An error of one command within a list stands in the list."""

MAX_WAITING = 10_000
"""Calls under way on one connection."""

MAX_UNSENT_BYTES = 64 << 20
"""What a server that does not read may leave with us."""

_LOOK_SECONDS = 0.005
"""How often calls are looked through for late ones, at most: each look goes over all of them."""


class _Batch:
    """What leaves in one write."""

    __slots__ = ("sent_at",)

    def __init__(self, sent_at: float) -> None:
        self.sent_at = sent_at
        """Never, until it is: time in which we come to nothing ourselves is not the server's."""


_Waiting = tuple["asyncio.Future[Reply]", _Batch, float]
"""Who waits, for what, and how many seconds it may take."""


class Refused(StoreUnavailable):
    """The server answered with an error.

    Attributes:
        code: Its first word, such as ``MOVED`` or ``OOM``.
    """

    def __init__(self, message: str) -> None:
        """Take what the server said, but for a command's words: those may be secret."""
        super().__init__(message.partition(", with args ")[0])
        self.code = message.partition(" ")[0]


NOT_IN_TIME = "the server did not answer in time"


class Late(StoreUnavailable):
    """The server did not answer in time. It may still do what it was asked."""


class Link(asyncio.Protocol):
    """A connection that is made. One event loop; not thread-safe.

    Cost of a call: some 10 us of CPU alone, 3 us among others.
    """

    def __init__(self) -> None:
        """Use `asyncio.loop.create_connection` to make one."""
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._lost = self._loop.create_future()
        self._unsent: list[bytes] = []
        self._unsent_batch = _Batch(math.inf)
        self._unsent_seconds = math.inf
        """The least time that a reply to what is unsent may take."""
        self._unsent_bytes = 0
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = math.inf
        self._replies_at_once = 1
        self._late_in_a_row = 0
        self._last_late_at = -math.inf
        self.is_behind = False
        """Whether a reply is late and nothing has come since: what is asked now waits behind it."""
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Done when the connection is over, with the reason."""
        self.on_late: Callable[[int], None] | None = None
        """Called when a reply is late, with how many in a row were. However many wait in a pause of
        the server, they count once, and once more each time the pause lasts as long again as a
        reply may take."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to send."""
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Hand replies to those who wait for them."""
        reader, waiting = self._reader, self._waiting
        reader.feed(data)
        waited = len(waiting)
        try:
            while (reply := reader.gets()) is not False:
                if not waiting:
                    self._end(_unasked(reply))
                    return
                future = waiting.popleft()[0]
                if not future.done():
                    self._late_in_a_row = 0
                    _settle(future, reply)
        except hiredis.ProtocolError as error:
            self._end(f"it does not speak as Redis does: {error}")
        self._replies_at_once = waited - len(waiting)
        self.is_behind = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait."""
        self._transport = None
        self._end(str(exc) if exc else "it closed the connection")
        self._lost.set_result(None)

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return not self.ended.done()

    def ask(self, *words: Word, timeout_seconds: float) -> "asyncio.Future[Reply]":
        """Send a command and return its reply to come.

        The future raises `Late` if the reply is late, `StoreUnavailable` if the connection ends,
        and `Refused` if it is an error. It may be cancelled, or dropped. The time runs from when it
        is sent, at the end of this turn of the loop.

        Raises:
            StoreUnavailable: The connection has ended.
            StoreFull: Too much is under way, or unsent.
        """
        if self.ended.done():
            raise StoreUnavailable(f"no connection: {self.ended.result()}")
        if len(self._waiting) >= MAX_WAITING:
            raise StoreFull(f"{MAX_WAITING} calls are under way")
        batch = self._write(hiredis.pack_command(words), timeout_seconds)  # type: ignore[arg-type]  # means any length
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting.append((future, batch, timeout_seconds))
        return future

    def close(self) -> None:
        """End the connection; what is under way fails. May be called twice."""
        self._end("it was closed here")

    async def wait_closed(self) -> None:
        """Return when it has ended and its socket is closed."""
        await asyncio.shield(self._lost)

    def _write(self, command: bytes, timeout_seconds: float) -> _Batch:
        """Send a command with others of this turn; at once if it seems to be alone.

        Another turn of the loop, in which nobody comes, is a tenth of what a lone call costs.
        """
        transport, unsent_bytes = self._transport, self._unsent_bytes + len(command)
        if transport is not None:
            unsent_bytes += transport.get_write_buffer_size()
        if unsent_bytes > MAX_UNSENT_BYTES:
            raise StoreFull(f"{unsent_bytes} bytes wait for a server that does not read them")
        if transport is not None and not self._waiting and self._replies_at_once == 1:
            transport.write(command)
            return self._sent(_Batch(math.inf), timeout_seconds)
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(command)
        self._unsent_bytes += len(command)
        self._unsent_seconds = min(self._unsent_seconds, timeout_seconds)
        return self._unsent_batch

    def _send(self) -> None:
        if self._transport is not None and self._unsent:
            self._transport.writelines(self._unsent)
            self._unsent.clear()
            self._unsent_bytes = 0
            self._sent(self._unsent_batch, self._unsent_seconds)
            self._unsent_batch, self._unsent_seconds = _Batch(math.inf), math.inf

    def _sent(self, batch: _Batch, timeout_seconds: float) -> _Batch:
        """Begin to count the time of a batch, of which a reply is late first after so long."""
        batch.sent_at = self._loop.time()
        late_at = batch.sent_at + timeout_seconds
        if late_at < self._looks_at:
            self._look_at(late_at)
        return batch

    def _look_at(self, moment: float) -> None:
        """Look for late calls at that moment; one timer serves for all."""
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = moment  # uvloop's timers do not say it when they are due at once
        self._timer = self._loop.call_at(moment, self._read_and_look)

    def _read_and_look(self) -> None:
        """Look once what has come is read: after a pause of ours, uvloop calls timers first."""
        self._timer, self._looks_at = None, math.inf
        self._loop.call_soon(self._loop.call_soon, self._look_for_late)

    def _look_for_late(self) -> None:
        """Fail the calls whose time is over; their replies, if they still come, are dropped.

        Those that were cancelled count, too: a server may be silent while every caller is hasty.
        """
        now = self._loop.time()
        next_look = math.inf
        is_late_again = False
        for future, batch, timeout_seconds in self._waiting:
            late_at = batch.sent_at + timeout_seconds
            if late_at > now:
                next_look = min(next_look, late_at)
                continue
            due_again = self._last_late_at + timeout_seconds
            if batch.sent_at >= self._last_late_at or due_again <= now:
                is_late_again = True
                due_again = now + timeout_seconds
            next_look = min(next_look, due_again)
            self.is_behind = True
            if not future.done():
                _fail(future, Late(NOT_IN_TIME))
        if next_look < math.inf:
            self._look_at(max(next_look, now + _LOOK_SECONDS))
        if is_late_again:
            self._last_late_at = now
            self._late_in_a_row += 1
            if self.on_late is not None:
                self.on_late(self._late_in_a_row)

    def _end(self, reason: str) -> None:
        if self.ended.done():
            return
        self.ended.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        self._unsent.clear()
        waiting, self._waiting = self._waiting, deque()
        for future, _, _ in waiting:
            if not future.done():
                _fail(future, StoreUnavailable(f"the connection broke: {reason}"))


def _settle(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if isinstance(reply, hiredis.ReplyError):
        _fail(future, Refused(str(reply)))
    else:
        future.set_result(reply)


def _fail(future: "asyncio.Future[Reply]", error: StoreUnavailable) -> None:
    future.set_exception(error)
    # Looked at, so that nobody complains of a future that was dropped.
    future.exception()


def _unasked(reply: Reply) -> str:
    """Return why a connection ends on which a server speaks unasked."""
    if isinstance(reply, hiredis.ReplyError):  # such as: too many clients
        return f"it said {reply}"
    return "it said something nobody asked for"
