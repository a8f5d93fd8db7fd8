"""Leases on making an entry, of which each key has one at a time."""

import asyncio
from collections import Counter
from typing import Protocol

from stepwell.core.names import CacheKey
from stepwell.core.ports import Claimed
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.line import PATIENCE_SECONDS
from stepwell.stores.redis.scripts import CLAIM, RELEASE, RENEW, Asked


class Generation(Protocol):
    """Knows which entries count; `stepwell.stores.redis.feed.RedisFeed`."""

    @property
    def generation(self) -> bytes:
        """Part of the names of entries."""
        ...


class Leases:
    """The leases of one gateway. Safe for many tasks on one event loop.

    A lease is a string beside its entry, with a time to live: it goes when nobody renews it. Its
    value, the token, is the gateway's own. Who writes the entry shows it to the server in the same
    script that writes, which turns away a holder that has lost its lease to another, however long
    it slept (M. Kleppmann, "How to do distributed locking", 2016). There the tokens need not grow:
    they are compared where they are kept.
    """

    def __init__(self, servers: Asked, layout: Layout, feed: Generation, *, token: str) -> None:
        """Hold none.

        Args:
            servers: Where the leases are.
            layout: Under which names.
            feed: Knows which entries count.
            token: Nobody else's, and new with each process.
        """
        self._servers = servers
        self._layout = layout
        self._feed = feed
        self._token = token.encode()
        self._held: Counter[CacheKey] = Counter()

    def token_for(self, key: CacheKey) -> bytes:
        """Return the token if the lease was taken and not given up, lost or not; else nothing."""
        return self._token if key in self._held else b""

    async def claim(self, key: CacheKey, milliseconds: int) -> Claimed | str:
        """As `stepwell.core.ports.Leases.claim`. One script."""
        told = await CLAIM.run(self._servers, self._names(key), self._token, milliseconds)
        if isinstance(told, bytes):
            return told.decode(errors="replace")
        self._held[key] += 1
        return Claimed(is_made=told != 0)

    async def holder(self, key: CacheKey) -> str | None:
        """As `stepwell.core.ports.Leases.holder`. One ``GET``."""
        name, _ = self._names(key)
        told = await self._servers.ask(name, "GET", name)
        return told.decode(errors="replace") if isinstance(told, bytes) else None

    async def renew(self, milliseconds: int) -> None:
        """As `stepwell.core.ports.Leases.renew`. A script for each; they leave in one write."""
        await asyncio.gather(
            *(
                RENEW.run(
                    self._servers,
                    self._names(key),
                    *(self._token, milliseconds),
                    timeout_seconds=milliseconds / 1000,
                )
                for key in self._held
            ),
            return_exceptions=True,
        )

    async def release(self, key: CacheKey) -> None:
        """As `stepwell.core.ports.Leases.release`. One script."""
        self._held[key] -= 1
        if self._held[key] > 0:
            return
        del self._held[key]
        await RELEASE.run(
            self._servers,
            self._names(key)[:1],
            self._token,
            # Nobody waits for it, and others would wait until the lease has run out.
            timeout_seconds=PATIENCE_SECONDS,
        )

    def _names(self, key: CacheKey) -> tuple[bytes, bytes]:
        """Return the names of the lease and of the entry."""
        generation = self._feed.generation
        return self._layout.lease(generation, key), self._layout.entry(generation, key)
