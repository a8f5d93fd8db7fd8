"""Which phrased entries came, in order, for views that hold something of each."""

import struct
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from stepwell.core.entry import Arrived, Entry
from stepwell.core.names import Arrival, CacheKey
from stepwell.stores.redis.entries import Page
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.replies import integer, stream_entries
from stepwell.stores.redis.scripts import ARRIVED, Asked

_FORM = struct.Struct("<32sd")
_BEHIND_THE_FIRST = 1
"""`Arrival` 0 is before all; behind ``n`` arrivals is ``n + 1``; a page of a walk is below 0."""


class Walked(Protocol):
    """Where the entries are; `stepwell.stores.redis.entries.Entries`."""

    def walk(self, generation: bytes) -> AsyncIterator[Page]:
        """Yield all entries."""
        ...


class Arrivals:
    """A stream of what came of late, and a walk through the store for who comes from further back.

    For one follower. One event loop.
    """

    def __init__(self, servers: Asked, layout: Layout, entries: Walked) -> None:
        self._servers = servers
        self._layout = layout
        self._entries = entries
        self._page = Arrival(0)
        """Of the walk under way."""
        self._rest: list[Arrived] = []
        self._walk: AsyncIterator[Page] | None = None
        self._behind = Arrival(0)
        """Where to go on after the walk: how far the stream was when it began."""

    async def note(self, generation: bytes, entry: Entry) -> None:
        """Tell that ``entry`` came. Raises `StoreError`."""
        await ARRIVED.run(
            self._servers,
            (self._layout.meta, self._layout.arrivals),
            generation,
            _FORM.pack(entry.key, entry.expires_at),
        )

    async def after(
        self, generation: bytes, after: Arrival, at_most: int
    ) -> tuple[Sequence[Arrived], Arrival]:
        """As `stepwell.core.ports.Arrivals.arrived`. Raises `StoreError`."""
        if after > 0:
            found = await self._from_stream(after, at_most)
            if found is not None:
                return found
        if after >= 0 or after != self._page or self._walk is None:
            self._behind = Arrival(await self._came() + _BEHIND_THE_FIRST)
            self._walk, self._rest = self._entries.walk(generation), []
        return await self._from_walk(self._walk, at_most)

    async def _came(self) -> int:
        came = await self._servers.ask(self._layout.meta, "HGET", self._layout.meta, "came")
        return 0 if came is None else integer(came)

    async def _from_stream(
        self, after: Arrival, at_most: int
    ) -> tuple[Sequence[Arrived], Arrival] | None:
        """Return what came next; ``None`` if the stream does not reach back so far."""
        name, seen = self._layout.arrivals, after - _BEHIND_THE_FIRST
        told = await self._servers.ask(name, "XRANGE", name, f"{seen + 1}-0", "+", "COUNT", at_most)
        found, last = [], seen
        for number, fields in stream_entries(told):
            if number != last + 1:
                return None
            key, expires_at = _FORM.unpack(fields[b"entry"])
            found.append(Arrived(CacheKey(key), expires_at))
            last = number
        if not found and await self._came() != seen:
            return None
        return found, Arrival(last + _BEHIND_THE_FIRST)

    async def _from_walk(
        self, walk: AsyncIterator[Page], at_most: int
    ) -> tuple[Sequence[Arrived], Arrival]:
        while len(self._rest) < at_most:
            page = await anext(walk, None)
            if page is None:
                self._walk, self._page = None, Arrival(0)
                found, self._rest = self._rest, []
                return found, self._behind
            self._rest += [
                Arrived(seen.key, seen.facets.expires_at)
                for seen in page.seen
                if seen.facets.is_phrased
            ]
        found, self._rest = self._rest[:at_most], self._rest[at_most:]
        self._page = Arrival(self._page - 1)
        return found, self._page
