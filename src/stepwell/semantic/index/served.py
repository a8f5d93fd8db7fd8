"""An index that a server searches, for all gateways that share a store.

The gateway that stored an entry adds its point, and nobody else embeds it. One of them leads: it
adds what is missing (an embedder failed, a gateway was killed, the index is new), and removes what
invalidations mean. What it leaves when it dies goes when it is found, or expires.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from stepwell.core.clock import Clock
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.errors import CorruptEntry, IndexUnavailable, StoreError
from stepwell.core.events import Degraded
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, Point, PointServer
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Vector
from stepwell.semantic.index.progress import NOTHING, Gap

COMPONENT = "semantic.index"

LEASE_SECONDS = 30.0
"""How long a gateway leads that does not ask again."""

DUE_SECONDS = 10.0
"""How often it is asked who leads, and what has expired is removed."""

MAX_UNDER_WAY = 1_000
"""Removals of each kind; what comes beyond goes when it is found again, or expires."""


SETTLE_SECONDS = 2.0
"""How far apart an entry and its point may come, each in the background, in whatever order."""


class Truth(Protocol):
    """The store that the index is of."""

    async def get(self, key: CacheKey) -> Entry | None:
        """Return the entry under ``key``."""
        ...


class ServedIndex:
    """A `FollowedIndex` over a `PointServer`. One event loop."""

    def __init__(
        self,
        server: PointServer,
        store: Truth,
        *,
        clock: Clock,
        events: EventSink,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        """Lead nobody yet.

        Args:
            server: Keeps the points; closed with this.
            store: Says whether an entry is really gone.
            clock: The time.
            events: Hears of removals that failed.
            settle_seconds: How long after its point an entry may come to the store.
        """
        self._server = server
        self._store = store
        self._clock = clock
        self._events = events
        self._gap: Gap | None = None
        self._leads = False
        self._due_at = clock.monotonic()
        self._settle_seconds = settle_seconds
        self._under_way: set[asyncio.Task[None]] = set()
        self._doubted: dict[CacheKey, asyncio.Task[None]] = {}
        """Points whose entries were not found, and who finds out whether they are gone."""

    @property
    def trouble(self) -> str:
        """Why it is not searched just now; empty if it is."""
        return self._server.trouble

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        """As `Index.search`; what was not there a moment ago is left out."""
        with _as_index():
            found = await self._server.search(partition, vector, k, now)
        return [one for one in found if one.key not in self._doubted]

    async def add(self, point: Point, vector: Vector) -> None:
        """As `Index.add`; what is added is in doubt no more."""
        doubt = self._doubted.pop(point.key, None)
        if doubt is not None:
            doubt.cancel()
        with _as_index():
            await self._server.add(point, vector)

    def remove(self, key: CacheKey) -> None:
        """As `Index.remove`: here at once, for all when the store itself says that it is gone.

        The store may not be heard here, or the entry still be on its way to it; then all others
        would lose the point too.
        """
        if key in self._doubted or len(self._doubted) >= MAX_UNDER_WAY:
            return
        task = self._doubted[key] = asyncio.create_task(self._find_out(key))
        task.add_done_callback(lambda _: self._believe(key, task))

    async def _find_out(self, key: CacheKey) -> None:
        await asyncio.sleep(self._settle_seconds)
        await self._tell(self._remove_if_gone(key))

    def _believe(self, key: CacheKey, doubt: asyncio.Task[None]) -> None:
        if self._doubted.get(key) is doubt:
            del self._doubted[key]

    async def _remove_if_gone(self, key: CacheKey) -> None:
        try:
            if await self._store.get(key) is not None:
                return
        except CorruptEntry:
            pass
        except StoreError:
            return  # Who asks the store tells of it.
        await self._server.remove(key)

    @property
    def gap(self) -> Gap | None:
        """As `FollowedIndex.gap`: all, from when this gateway leads."""
        return self._gap

    def close_gap(self, gap: Gap) -> None:
        """As `FollowedIndex.close_gap`."""
        if self._gap is gap:
            self._gap = None

    async def lacking(self, arrived: Sequence[Arrived]) -> Sequence[Arrived]:
        """As `FollowedIndex.lacking`. One call for all."""
        if not arrived:
            return ()
        with _as_index():
            held = await self._server.expiries([one.key for one in arrived])
        return [one for one in arrived if held.get(one.key, 0.0) < one.expires_at]

    def remove_where(self, selector: Selector, before: Position) -> None:
        """As `FollowedIndex.remove_where`, if this gateway leads."""
        if self._leads:
            self._soon(self._server.remove_where(selector, before))

    async def maintain(self, position: Position) -> bool:
        """As `FollowedIndex.maintain`: only the one that leads is given what came."""
        del position
        if self._clock.monotonic() >= self._due_at:
            with _as_index():
                await self._look_after()
        return self._leads

    async def _look_after(self) -> None:
        try:
            leads = await self._server.lead(LEASE_SECONDS)
        except StoreError:
            self._leads = False
            raise
        if leads and not self._leads:
            self._gap = Gap(NOTHING)
        self._leads = leads
        self._due_at = self._clock.monotonic() + DUE_SECONDS
        if self._leads:
            await self._server.remove_expired(self._clock.now())

    async def flush(self, position: Position) -> None:
        """Finish what is under way, and let another lead."""
        del position
        for doubt in self._doubted.values():
            doubt.cancel()
        await asyncio.gather(*self._doubted.values(), *self._under_way, return_exceptions=True)
        if self._leads:
            self._leads = False
            await self._tell(self._server.resign())

    async def aclose(self) -> None:
        """Release everything. May be called twice."""
        await self._server.aclose()

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._under_way) >= MAX_UNDER_WAY:
            work.close()
            return
        task = asyncio.create_task(self._tell(work))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _tell(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work for which nobody waits."""
        try:
            await work
        except StoreError as error:
            self._events.emit(Degraded(COMPONENT, str(error)))


@contextmanager
def _as_index() -> Iterator[None]:
    """Say of a server's failure what it means here."""
    try:
        yield
    except StoreError as error:
        raise IndexUnavailable(str(error)) from error
