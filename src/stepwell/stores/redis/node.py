"""One server: the connection to it, and whether it may be asked."""

import asyncio
from collections.abc import Awaitable, Callable

from stepwell.core.errors import StoreError, StoreUnavailable
from stepwell.stores.breaker import Breaker, Closed, State
from stepwell.stores.redis.link import NOT_IN_TIME, Link, Refused, Reply, Word

LATE_LIMIT = 3
"""Replies late in a row that open the circuit."""

_NOT_READY = frozenset({"LOADING", "BUSY", "MASTERDOWN"})
"""Errors of a server that can answer nothing else for now."""


class Node:
    """A server that is asked over one connection. One event loop; safe for many tasks.

    Its circuit opens when the connection breaks, when replies are late `LATE_LIMIT` times in a row,
    and when it turns out to be no master any more. An error reply is an answer, and a call that
    we do not send because too much is under way says nothing of the server.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], Awaitable[Link]],
        *,
        timeout_seconds: float,
        on_change: Callable[[State], None],
    ) -> None:
        """Do nothing until `start`.

        Args:
            name: For messages.
            connect: Opens a connection that can be asked at once; raises `StoreUnavailable`, or
                `ConfigError`.
            timeout_seconds: What a reply may take unless a call says otherwise; a probe, too: a
                server that is too slow for calls is not back.
            on_change: As a `Breaker` has it.
        """
        self.name = name
        self._connect = connect
        self._timeout_seconds = timeout_seconds
        self._breaker = Breaker(self._probe, on_change=on_change)
        self._link: Link | None = None

    @property
    def state(self) -> State:
        """Whether it may be asked."""
        return self._breaker.state

    async def start(self) -> None:
        """Connect, or go on trying in the background; returns once the first try is over.

        Raises:
            ConfigError: What no waiting mends. Then nothing goes on in the background.
        """
        await self._breaker.start()

    async def ask(self, *words: Word, timeout_seconds: float | None = None) -> Reply:
        """Return the reply to a command. Never waits for a connection.

        Without a time of its own a call does not wait behind a reply that is late, either: in a
        pause of the server only those wait that were asked before anybody knew.

        Raises:
            StoreUnavailable: It may not be asked, did not answer in time, or broke off.
            Refused: It answered with an error.
            StoreFull: Too much is under way.
        """
        link = self._usable_link()
        if link.is_behind and timeout_seconds is None:
            raise StoreUnavailable(NOT_IN_TIME)
        try:
            return await link.ask(*words, timeout_seconds=self._seconds(timeout_seconds))
        except Refused as error:
            self._look_at_refusal(link, error)
            raise

    async def ask_importing(self, *words: Word, timeout_seconds: float | None = None) -> Reply:
        """Ask for a key of a slot that is moving here and not here in whole; else as `ask`."""
        link, seconds = self._usable_link(), self._seconds(timeout_seconds)
        link.ask("ASKING", timeout_seconds=seconds)
        return await link.ask(*words, timeout_seconds=seconds)

    async def dial(self) -> Link:
        """Return a connection of the caller's own, for what waits long; the caller closes it.

        Raises:
            StoreUnavailable: The server may not be asked, or does not take the connection.
        """
        self._usable_link()
        return await self._connect()

    def fail(self, reason: str) -> None:
        """Take it for failed: drop the connection, and find out whether another can be had."""
        self._drop_link()
        self._breaker.trip(reason)

    async def aclose(self) -> None:
        """Close the connection and stop trying. May be called twice."""
        await self._breaker.aclose()
        link = self._drop_link()
        if link is not None:
            await link.wait_closed()

    def _seconds(self, timeout_seconds: float | None) -> float:
        return self._timeout_seconds if timeout_seconds is None else timeout_seconds

    def _usable_link(self) -> Link:
        if self._link is not None and self._link.ended.done():
            # It has just ended, and whoever watches it is about to hear of it.
            self.fail(f"{self.name}: the connection ended: {self._link.ended.result()}")
        state = self._breaker.state
        if self._link is None or not isinstance(state, Closed):
            lost = f"{self.name}: the connection was just lost"
            raise StoreUnavailable(lost if isinstance(state, Closed) else state.reason)
        return self._link

    def _look_at_refusal(self, link: Link, error: Refused) -> None:
        if error.code == "READONLY" and link is self._link:
            self.fail(f"{self.name} is not the master any more")

    async def _probe(self) -> None:
        """See that it answers in time, over the connection there is or a new one."""
        link = self._link
        if link is None:
            link = await self._connect()
            self._watch(link)
        try:
            await link.ask("PING", timeout_seconds=self._timeout_seconds)
        except Refused as error:
            if error.code in _NOT_READY:
                raise StoreUnavailable(f"{self.name}: {error}") from error
        except BaseException as error:
            if link is self._link:
                self._drop_link()
            if isinstance(error, StoreError):  # full, too: of calls it does not answer
                raise StoreUnavailable(f"{self.name}: {error}") from error
            raise

    def _watch(self, link: Link) -> None:
        """Take a connection as this server's, and hear when it fails."""

        def on_late(in_a_row: int) -> None:
            if in_a_row >= LATE_LIMIT and link is self._link:
                self._breaker.trip(f"{self.name}: {in_a_row} replies in a row were late")

        def on_ended(ended: asyncio.Future[str]) -> None:
            if link is self._link:
                self.fail(f"{self.name}: the connection ended: {ended.result()}")

        self._link = link
        link.on_late = on_late
        link.ended.add_done_callback(on_ended)

    def _drop_link(self) -> Link | None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
        return link
