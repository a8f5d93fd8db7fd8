"""Entries in Redis: one string each, over all nodes of a cluster."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple, Protocol

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry
from stepwell.core.errors import CorruptEntry, OtherVersion
from stepwell.core.names import CacheKey
from stepwell.stores.record import decode, encode
from stepwell.stores.redis.epochs import Epochs
from stepwell.stores.redis.facets import (
    IDENTITY_BYTES,
    MAX_BYTES,
    Facets,
    read_facets,
    write_facets,
)
from stepwell.stores.redis.layout import Layout, key_of
from stepwell.stores.redis.line import PATIENCE_SECONDS
from stepwell.stores.redis.replies import integer, string
from stepwell.stores.redis.scanning import Node, scan
from stepwell.stores.redis.scripts import FENCED, LATE, OUTDATED, PUT, REMOVE, Asked

GRACE_SECONDS = 5
"""How long after the caller last heard the feed an entry may be written. A sweep looks again at
what came later: `stepwell.stores.redis.removal`."""


class Servers(Asked, Protocol):
    """The part of the servers this needs."""

    def masters(self) -> Sequence[Node]:
        """Return the nodes that hold entries."""
        ...


class Written(Enum):
    """What became of an entry."""

    ANEW = auto()
    """It is there."""
    IN_PLACE = auto()
    """It is there, in place of another."""
    LATE = auto()
    """It is not: it came too late."""
    FENCED = auto()
    """It is not: the lease was lost, and others write."""
    OUTDATED = auto()
    """It is not: a newer version of this package has put its own there."""


_WRITTEN = {
    0: Written.ANEW,
    1: Written.IN_PLACE,
    LATE: Written.LATE,
    FENCED: Written.FENCED,
    OUTDATED: Written.OUTDATED,
}


class Seen(NamedTuple):
    """An entry that a walk has come by."""

    key: CacheKey
    facets: Facets
    beginning: bytes
    """How its value begins; for `Entries.remove`."""


class Page(NamedTuple):
    """Some of what a walk has come by."""

    seen: list[Seen]
    unreadable: int
    """How many more there were that another version wrote, in a way this one cannot read."""


class Entries:
    """Reads, writes and removes entries. Safe for many tasks on one event loop."""

    def __init__(self, servers: Servers, layout: Layout, *, clock: Clock) -> None:
        self._servers = servers
        self._layout = layout
        self._now = clock.now

    async def find(self, generation: bytes, key: CacheKey, epochs: Epochs) -> Entry | None:
        """Return the entry under ``key``, unless it is gone by an invalidation.

        One ``GET``. What a gateway of another version wrote, and this one cannot read, is not
        there.

        Raises:
            CorruptEntry: The record was damaged. The next put replaces it.
            StoreError: No answer.
        """
        name = self._layout.entry(generation, key)
        value = await self._servers.ask(name, "GET", name)
        if value is None:
            return None
        stored = string(value)
        try:
            facets, at = read_facets(stored)
            return None if epochs.outrun(key, facets) else decode(stored[at:])
        except OtherVersion:
            return None

    async def put(
        self, generation: bytes, entry: Entry, facets: Facets, heard_at: int, token: bytes
    ) -> Written:
        """Write ``entry``.

        Args:
            generation: Part of its name.
            entry: What to write.
            facets: The entry's.
            heard_at: Second of the server's clock up to which the caller knows all invalidations.
            token: Of the lease under which it was made, if there was one.

        Raises:
            StoreError: It may not have been written.
        """
        name = self._layout.entry(generation, entry.key)
        milliseconds = max(1, int((entry.keep_until - self._now()) * 1000))
        value = write_facets(facets) + encode(entry)
        told = await PUT.run(
            self._servers,
            (name, self._layout.lease(generation, entry.key)),
            *(value, milliseconds, heard_at + GRACE_SECONDS, token),
        )
        return _WRITTEN[integer(told)]

    async def walk(self, generation: bytes) -> AsyncIterator[Page]:
        """Yield all entries of a generation, some hundred at a time; a few may come twice.

        Those that come or go meanwhile may be among them or not (``SCAN``). Costs the servers a
        microsecond an entry, and this process five; nobody waits longer than for a page.

        Raises:
            StoreError: A server did not answer.
        """
        for node in self._servers.masters():
            async for names in scan(node, self._layout.entries(generation)):
                yield await _look_at(node, names)

    async def see(self, generation: bytes, key: CacheKey) -> Page:
        """Return one entry as `walk` would, if it is there."""
        name = self._layout.entry(generation, key)
        told = await self._servers.ask(
            *(name, "GETRANGE", name, 0, MAX_BYTES - 1), timeout_seconds=PATIENCE_SECONDS
        )
        return _page([(key, string(told))])

    async def remove(self, generation: bytes, seen: Seen) -> bool:
        """Remove an entry, unless another has taken its place; return whether it was there."""
        name = self._layout.entry(generation, seen.key)
        beginning = seen.beginning[:IDENTITY_BYTES]
        removed = await REMOVE.run(
            self._servers, (name,), beginning, timeout_seconds=PATIENCE_SECONDS
        )
        return bool(integer(removed))


async def _look_at(node: Node, names: list[bytes]) -> Page:
    asked = [
        node.ask("GETRANGE", name, 0, MAX_BYTES - 1, timeout_seconds=PATIENCE_SECONDS)
        for name in names
    ]
    found = []
    for name, beginning in zip(names, await asyncio.gather(*asked), strict=True):
        with suppress(ValueError):  # a name that is none of ours
            found.append((key_of(name), string(beginning)))
    return _page(found)


def _page(found: Sequence[tuple[CacheKey, bytes]]) -> Page:
    """Return what the beginnings of values say; those that have gone, or are damaged, nothing."""
    seen, unreadable = [], 0
    for key, beginning in found:
        try:
            facets, _ = read_facets(beginning)
        except OtherVersion:
            unreadable += 1
        except CorruptEntry:
            continue
        else:
            seen.append(Seen(key, facets, beginning))
    return Page(seen, unreadable)
