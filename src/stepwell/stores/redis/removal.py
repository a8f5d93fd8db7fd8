"""Removing what invalidations mean: at once, and once more when all gateways have heard of them."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import NamedTuple

from stepwell.core.changes import Invalidated
from stepwell.core.entry import Selector
from stepwell.core.errors import StoreError, StoreUnavailable
from stepwell.core.names import CacheKey, Position
from stepwell.stores.messages import invalidated_message
from stepwell.stores.redis.entries import Entries, Page
from stepwell.stores.redis.epochs import Epochs
from stepwell.stores.redis.feed import RedisFeed
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.line import Served, run_durably
from stepwell.stores.redis.replies import integer
from stepwell.stores.redis.scripts import INVALIDATED, LEASE, RELEASE, SWEPT

SETTLED_SECONDS = 60.0
"""So long after an invalidation nobody can write any more what it means: whoever writes has heard
all that was said until `stepwell.stores.redis.entries.GRACE_SECONDS` before."""

_LEASE_MILLISECONDS = 120_000


class _Removed(NamedTuple):
    entries: int
    unreadable: int
    """Entries that may be meant, but are of a version that this one cannot read."""


class Removal:
    """Invalidates, counts, and sweeps behind. One event loop."""

    def __init__(
        self,
        servers: Served,
        layout: Layout,
        entries: Entries,
        feed: RedisFeed,
    ) -> None:
        self._servers = servers
        self._layout = layout
        self._entries = entries
        self._feed = feed
        self._sweeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sweep in the background, now and then."""
        self._sweeping = asyncio.create_task(self._sweep_for_ever())

    async def aclose(self) -> None:
        """Stop sweeping. May be called twice."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
            self._sweeping = None

    async def count(self, selector: Selector) -> int:
        """Return how many entries ``selector`` means. Costs a walk, unless it names a key.

        Raises:
            StoreError: Not all could be looked at.
        """
        meant = Epochs()
        meant.note(Invalidated(_ANY, selector))
        known = self._feed.epochs
        found: set[CacheKey] = set()
        async for page in self._candidates(selector.key):
            found.update(
                seen.key
                for seen in page.seen
                if meant.outrun(seen.key, seen.facets) and not known.outrun(seen.key, seen.facets)
            )
        return len(found)

    async def invalidate(self, selector: Selector) -> int:
        """Make it known that what ``selector`` means is gone; remove it; return how many it was.

        What was gone before, and not removed yet, does not count.

        Raises:
            StoreError: It was not made known: ask again. Or not all could be removed.
        """
        gone = self._feed.epochs.until(_ANY)
        position = await self.revoke(selector)
        meant = Epochs()
        meant.note(Invalidated(position, selector))
        try:
            return (await self._remove(meant, selector.key, uncounted=gone)).entries
        except StoreError as error:
            raise StoreUnavailable(f"it is obeyed, but was not counted: {error}") from error

    async def revoke(self, selector: Selector) -> Position:
        """Make it known that what ``selector`` means is gone; return the change's position.

        From when it is known, nobody serves it. A sweep removes it.

        Raises:
            StoreError: It was not made known.
        """
        layout = self._layout
        position = integer(
            await run_durably(
                self._servers,
                INVALIDATED,
                (layout.meta, layout.changes, layout.epochs),
                self._feed.generation,
                invalidated_message(selector),
            )
        )
        await self._feed.heard(Position(position))
        return Position(position)

    async def _remove(self, meant: Epochs, key: CacheKey | None, *, uncounted: Epochs) -> _Removed:
        """Remove what is meant; return how many, without those that ``uncounted`` means."""
        entries = unreadable = 0
        generation = self._feed.generation
        async for page in self._candidates(key):
            unreadable += page.unreadable
            chosen = [seen for seen in page.seen if meant.outrun(seen.key, seen.facets)]
            done = await asyncio.gather(
                *(self._entries.remove(generation, seen) for seen in chosen)
            )
            entries += sum(
                was_there and not uncounted.outrun(seen.key, seen.facets)
                for seen, was_there in zip(chosen, done, strict=True)
            )
        return _Removed(entries, unreadable)

    async def _candidates(self, key: CacheKey | None) -> AsyncIterator[Page]:
        generation = self._feed.generation
        if key is None:
            async for page in self._entries.walk(generation):
                yield page
        else:
            yield await self._entries.see(generation, key)

    async def _sweep_for_ever(self) -> None:
        """Sweep what was heard at the end of one pause at the end of the next."""
        heard = Position(0)
        while True:
            await asyncio.sleep(SETTLED_SECONDS)
            # An outage is told by whoever follows the feed; what was not swept is, next time.
            with suppress(StoreError):
                await self._sweep(heard)
            heard = self._feed.position()

    async def _sweep(self, until: Position) -> None:
        """Remove what invalidations up to a position mean, and forget them. One gateway does.

        Nothing is forgotten while there are entries that may be meant and cannot be read: those
        who can read them still need to know.
        """
        meant = self._feed.epochs.until(until)
        if not len(meant):
            return
        name, token = self._layout.sweep, secrets.token_bytes(8)
        taken = await LEASE.run(self._servers, (name,), token, _LEASE_MILLISECONDS)
        if not integer(taken):
            return
        try:
            unreadable = 0
            for key in meant.keys() or (None,):
                unreadable += (await self._remove(meant, key, uncounted=meant)).unreadable
            if not unreadable:
                await SWEPT.run(
                    self._servers,
                    (self._layout.meta, self._layout.changes, self._layout.epochs),
                    self._feed.generation,
                    until,
                )
        finally:
            await RELEASE.run(self._servers, (name,), token)


_ANY = Position(1 << 62)
