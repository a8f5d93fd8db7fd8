"""Some connections to one PostgreSQL, and whether it may be asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.stores.breaker import Breaker, Open, State
from stepwell.stores.postgres.dialing import Connection, Dialer

T = TypeVar("T")

LATE_LIMIT = 3
"""Calls late in a row that open the circuit."""


class Database:
    """Connections that are each lent to one call at a time. One event loop; safe for many tasks.

    The circuit opens when a connection breaks, and when calls are late `LATE_LIMIT` times in a row.
    A call that finds no free connection in its time has not been late: it says nothing of the
    server. A late one's connection is dropped and not waited for, whatever the server does.
    """

    def __init__(
        self, dialer: Dialer, *, connections: int, on_change: Callable[[State], None]
    ) -> None:
        """Do nothing until `start`.

        Args:
            dialer: Makes the connections, and says what a call may take.
            connections: How many.
            on_change: As a `Breaker` has it.
        """
        self._dialer = dialer
        self._connections = connections
        self._breaker = Breaker(self._connect, on_change=on_change)
        self._idle: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        self._all: set[Connection] = set()
        self._late: set[Connection] = set()
        """Dropped because a call was late, until that has ended."""
        self._late_in_a_row = 0
        self._reconnecting: asyncio.Future[None] | None = None
        self._under_way: set[asyncio.Future[Any]] = set()

    @property
    def trouble(self) -> str:
        """Why it is not asked just now; empty if it is."""
        state = self._breaker.state
        return state.reason if isinstance(state, Open) else ""

    async def start(self) -> None:
        """Connect, or go on trying in the background.

        Raises:
            ConfigError: What no waiting mends. Then nothing goes on in the background.
        """
        await self._breaker.start()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what ``work`` does with a connection, within the time a call may take.

        May be cancelled; then it goes on without the caller, who would else spoil the connection.

        Raises:
            StoreUnavailable: It may not be asked, was late, broke off, or refused.
        """
        if self.trouble:
            raise StoreUnavailable(self.trouble)
        task = asyncio.ensure_future(self._run(work))
        self._keep(task)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Drop all connections; calls under way fail. May be called twice."""
        await self._breaker.aclose()
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        self._drop_all()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._dialer.timeout_seconds
        connection = await self._free_connection(ends_at)
        timer = loop.call_at(ends_at, self._give_up, connection)
        try:
            result = await work(connection)
        except Exception as error:
            timer.cancel()
            self._take_back(connection, error)
            if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError):
                raise StoreUnavailable(str(error)) from error
            raise
        timer.cancel()
        self._take_back(connection, None)
        return result

    async def _free_connection(self, ends_at: float) -> Connection:
        if not self._idle.empty():
            return self._idle.get_nowait()
        try:
            async with asyncio.timeout_at(ends_at):
                return await self._idle.get()
        except TimeoutError:
            raise StoreUnavailable("all connections were in use") from None

    def _give_up(self, connection: Connection) -> None:
        """End a call that is late."""
        self._late.add(connection)
        self._drop(connection)

    def _take_back(self, connection: Connection, error: Exception | None) -> None:
        """Take a connection back after a call, or find out what is wrong with it.

        Raises:
            StoreUnavailable: It cannot be used any more.
        """
        if connection in self._late:
            self._late.discard(connection)
            self._note_late()
            raise StoreUnavailable("the server did not answer in time") from error
        if connection not in self._all:
            raise StoreUnavailable("the connection was given up") from error
        if connection.is_closed() or isinstance(error, asyncpg.UndefinedTableError):
            self._fail(f"{self._dialer.address}: {error or 'the connection was lost'}")
            raise StoreUnavailable(self.trouble) from error
        self._idle.put_nowait(connection)
        if isinstance(error, asyncpg.QueryCanceledError):
            self._note_late()
        else:
            self._late_in_a_row = 0

    def _note_late(self) -> None:
        self._late_in_a_row += 1
        if self._late_in_a_row >= LATE_LIMIT:
            late = f"{self._dialer.address}: {self._late_in_a_row} answers in a row were late"
            self._fail(late)
        elif self._reconnecting is None or self._reconnecting.done():
            self._reconnecting = asyncio.ensure_future(self._reconnect())
            self._keep(self._reconnecting)

    def _on_ended(self, connection: Connection) -> None:
        """Hear that a connection is over; those that are dropped are not among all any more."""
        if connection in self._all:
            self._fail(f"{self._dialer.address}: the connection ended")

    def _fail(self, reason: str) -> None:
        self._drop_all()
        self._late_in_a_row = 0
        self._breaker.trip(reason)

    async def _connect(self) -> None:
        """Make the connections that are missing."""
        try:
            while len(self._all) < self._connections:
                connection = await self._dialer.dial()
                connection.add_termination_listener(self._on_ended)
                self._all.add(connection)
                self._idle.put_nowait(connection)
        except BaseException:
            self._drop_all()
            raise

    async def _reconnect(self) -> None:
        """Make up for one that was dropped."""
        try:
            await self._connect()
        except (StoreUnavailable, ConfigError) as error:
            self._fail(str(error))

    def _drop(self, connection: Connection) -> None:
        self._all.discard(connection)
        connection.terminate()

    def _drop_all(self) -> None:
        while not self._idle.empty():
            self._idle.get_nowait()
        for connection in tuple(self._all):
            self._drop(connection)

    def _keep(self, task: "asyncio.Future[Any]") -> None:
        """Hold a task until it is done; what it raises, who waits for it hears."""

        def forget(done: "asyncio.Future[Any]") -> None:
            self._under_way.discard(done)
            if not done.cancelled():
                done.exception()

        self._under_way.add(task)
        task.add_done_callback(forget)
