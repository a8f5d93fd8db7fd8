"""Keep-alive connections to one server, of which so many may be open."""

import asyncio
from collections.abc import Awaitable, Callable

from stepwell.engines.direct_connection import Connection, Owner
from stepwell.engines.http_transport import KEEP_ALIVE_SECONDS, CannotConnect


class Pool:
    """Hands out connections, kept ones first, the one used last before all others.

    A connection that is out holds one of the slots until it comes back or is closed. For many
    tasks on one event loop; those that wait for a slot get it in turn.
    """

    def __init__(
        self, connect: Callable[[Owner], Awaitable[Connection]], *, max_connections: int
    ) -> None:
        """Have ``connect`` make connections, of which the pool is the owner."""
        self._connect = connect
        self._max_connections = max_connections
        self._free_slots = max_connections
        self._waiting: dict[asyncio.Future[None], None] = {}
        """Those that want a slot, in turn."""
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        """In the order of their return. Those being closed stay until they are."""
        self._connecting: set[asyncio.Future[Connection]] = set()
        self._is_closed = False

    def take_kept(self) -> Connection | None:
        """Return a kept connection for one exchange, if there is one and nobody waits."""
        connection = self._kept() if self._free_slots else None
        if connection is not None:
            self._free_slots -= 1
        return connection

    async def take(self, *, fresh: bool) -> Connection:
        """Return a connection for one exchange; a new one if ``fresh``. Waits for a slot.

        Raises:
            CannotConnect: The pool is closed, or the connection was at once.
            Exception: What ``connect`` raises.
        """
        await self._take_slot()
        try:
            connection = None if fresh else self._kept()
            return connection or await self._new()
        except BaseException:
            self._return_slot()
            raise

    async def aclose(self) -> None:
        """Close all connections, and return when they are."""
        self._is_closed = True
        for connecting in self._connecting:
            connecting.cancel()
        closing = tuple(self._open)
        for connection in closing:
            connection.drop()
        for connection in closing:
            await connection.wait_closed()

    def on_free(self, connection: Connection) -> None:
        """Take a connection back."""
        self._idle[connection] = None
        connection.keep(KEEP_ALIVE_SECONDS)
        self._return_slot()

    def on_lost(self, connection: Connection) -> None:
        """Forget a connection. One that `take` has not returned has no slot of its own."""
        if connection in self._open:
            self._open.remove(connection)
            if connection in self._idle:
                del self._idle[connection]
            else:
                self._return_slot()

    def _kept(self) -> Connection | None:
        for connection in reversed(self._idle):
            if connection.is_quiet():
                del self._idle[connection]
                return connection
        return None

    async def _new(self) -> Connection:
        if self._is_closed:
            raise CannotConnect("it is closed")
        connection = await self._connected()
        if self._is_closed or not connection.is_quiet():
            connection.drop()
            raise CannotConnect("the connection was closed at once, or the server spoke first")
        self._open.add(connection)
        if len(self._open) > self._max_connections and self._idle:
            next(iter(self._idle)).drop()
        return connection

    async def _connected(self) -> Connection:
        connecting = asyncio.ensure_future(self._connect(self))
        self._connecting.add(connecting)
        try:
            return await connecting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_closed and task is not None and not task.cancelling():
                raise CannotConnect("it is closed") from None
            raise
        finally:
            self._connecting.discard(connecting)

    async def _take_slot(self) -> None:
        if self._free_slots:
            self._free_slots -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(turn, None)
            if not turn.cancelled():  # it had come, and nobody takes it
                self._return_slot()
            raise

    def _return_slot(self) -> None:
        """Give a slot to the first that waits for one."""
        while self._waiting:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(None)
                return
        self._free_slots += 1
