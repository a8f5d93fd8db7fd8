"""One connection to one server, on which many calls are under way at once.

A server answers in the order it was asked, so calls need no number and no connection of their own:
what is asked in one turn of the event loop leaves in one write, and what was asked first is
answered first. Thus there is no pool, and nobody ever waits for a connection.
"""

import asyncio
from collections import deque
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

_Waiting = tuple["asyncio.Future[Reply]", float]


class Refused(StoreUnavailable):
    """The server answered with an error.

    Attributes:
        code: Its first word, such as ``MOVED`` or ``OOM``.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = message.partition(" ")[0]


class Link(asyncio.Protocol):
    """A connection that is made. One event loop; not thread-safe.

    Cost of a call: some 10 us of CPU alone, 3 us among others.
    """

    def __init__(self) -> None:
        """Use `asyncio.loop.create_connection` to make one."""
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.ended: asyncio.Future[str] = self._loop.create_future()
        """Done when the connection is over, with the reason."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to send."""
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Hand replies to those who wait for them."""
        reader, waiting = self._reader, self._waiting
        reader.feed(data)
        try:
            while (reply := reader.gets()) is not False:
                if not waiting:
                    self._end("it said something nobody asked for")
                    return
                future, _ = waiting.popleft()
                if not future.done():
                    _settle(future, reply)
        except hiredis.ProtocolError as error:
            self._end(f"it does not speak as Redis does: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait."""
        self._transport = None
        self._end(str(exc) if exc else "it closed the connection")

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""
        return not self.ended.done()

    def ask(self, *words: Word, timeout_seconds: float) -> "asyncio.Future[Reply]":
        """Send a command and return its reply to come.

        The future raises `StoreUnavailable` if the reply is late or the connection ends, and
        `Refused` if it is an error. It may be cancelled. The time runs from now.

        Raises:
            StoreUnavailable: The connection has ended.
            StoreFull: Too much is under way, or unsent.
        """
        if self.ended.done():
            raise StoreUnavailable(f"no connection: {self.ended.result()}")
        if len(self._waiting) >= MAX_WAITING:
            raise StoreFull(f"{MAX_WAITING} calls are under way")
        transport = self._transport
        if transport is not None and transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            raise StoreFull("the server does not read what it is sent")
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(hiredis.pack_command(words))
        future: asyncio.Future[Reply] = self._loop.create_future()
        deadline = self._loop.time() + timeout_seconds
        self._waiting.append((future, deadline))
        self._look_at(deadline)
        return future

    def close(self) -> None:
        """End the connection; what is under way fails. May be called twice."""
        self._end("it was closed here")

    def _send(self) -> None:
        if self._transport is not None and self._unsent:
            self._transport.writelines(self._unsent)
            self._unsent.clear()

    def _look_at(self, deadline: float) -> None:
        """Look for calls that are late when this one would be; one timer serves for all."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._look_for_late)

    def _look_for_late(self) -> None:
        """Fail the calls whose time is over; their replies, if they still come, are dropped."""
        self._timer = None
        now = self._loop.time()
        pending = [waiting for waiting in self._waiting if not waiting[0].done()]
        for future, deadline in pending:
            if deadline <= now:
                future.set_exception(StoreUnavailable("the server did not answer in time"))
        if deadlines := [deadline for _, deadline in pending if deadline > now]:
            self._look_at(min(deadlines))

    def _end(self, reason: str) -> None:
        if self.ended.done():
            return
        self.ended.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for future, _ in waiting:
            if not future.done():
                future.set_exception(StoreUnavailable(f"the connection broke: {reason}"))


def _settle(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if isinstance(reply, hiredis.ReplyError):
        future.set_exception(Refused(str(reply)))
    else:
        future.set_result(reply)
