"""The memory tier: entries in this process, bounded in number and in bytes."""

import heapq
from collections.abc import Iterable
from typing import Final, assert_never

from stepwell.core.changes import Change, Invalidated, Judged, Lost, Replaced, SourceMoved
from stepwell.core.clock import Clock
from stepwell.core.entry import Entry, Selector
from stepwell.core.events import Evicted
from stepwell.core.names import CacheKey, Tier
from stepwell.core.ports import EventSink, EvictionPolicy
from stepwell.stores.tag_index import TagIndex

_HEAP_SLACK: Final = 64
"""Stale heap items allowed beyond one per entry, so that a small store rarely rebuilds."""


class MemoryStore:
    """A bounded map from cache key to entry: expired entries leave first, then the policy's choice.

    Synchronous: a call is complete when it returns, so any number of tasks on one event loop may
    share a store. Not safe across threads. It is a derived view: dropping any of it costs only
    hits. It must follow the change feed of the store behind it, through `apply`.

    Counting and invalidating by a key or a tag look at what carries it, and nothing else: 1 us for
    each entry that is removed. By anything else they look at every entry, 0.1 to 0.2 us each; an
    index by namespace, model and class would cost every put, to spare a rare call a millisecond or
    two in 10,000 entries.
    """

    __slots__ = (
        "_clock",
        "_entries",
        "_events",
        "_expiries",
        "_max_bytes",
        "_max_entries",
        "_on_hit",
        "_policy",
        "_size_bytes",
        "_tags",
    )

    def __init__(
        self,
        policy: EvictionPolicy,
        *,
        max_entries: int,
        max_bytes: int,
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Make an empty store.

        Args:
            policy: Chooses what leaves; belongs to this store alone.
            max_entries: Most entries held; at least 1.
            max_bytes: Most bytes held, as `Entry.size_bytes` counts them; at least 1.
            clock: Tells which entries have expired.
            events: Is told of every entry that leaves.

        Raises:
            ValueError: A bound is below 1.
        """
        for name, bound in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if bound < 1:
                raise ValueError(f"{name} is {bound}; it must be at least 1")
        self._policy = policy
        self._on_hit = policy.on_hit
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._events = events
        self._entries: dict[CacheKey, Entry] = {}
        self._size_bytes = 0
        self._tags = TagIndex()
        self._expiries: list[tuple[float, CacheKey]] = []
        """A heap by ``keep_until``. An item whose entry has left or was replaced is stale; it is
        dropped when it comes up, or when the heap is rebuilt."""

    def __len__(self) -> int:
        """Return the number of entries held, expired ones included."""
        return len(self._entries)

    def __contains__(self, key: CacheKey) -> bool:
        """Return whether an entry is held under ``key``, expired or not; no use of it."""
        return key in self._entries

    @property
    def size_bytes(self) -> int:
        """Bytes held, expired entries included; never above ``max_bytes``."""
        return self._size_bytes

    def get(self, key: CacheKey) -> Entry | None:
        """Return the entry under ``key`` if it may still be served, fresh or stale.

        The hot path: a lookup, a comparison, a note to the policy. Whether the entry is fresh
        enough for this request is the caller's to judge.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock.now() < entry.keep_until:
            self._on_hit(key)
            return entry
        self._drop((entry,), "expired")
        return None

    def put(self, entry: Entry) -> bool:
        """Store ``entry``, replacing what is under its key, and make room for it.

        O(log n), plus O(n) once in n puts to clear the expiry heap of stale items.

        Returns:
            ``False`` if the entry alone is larger than ``max_bytes``. An older one under its key
            is gone all the same.
        """
        size = entry.size_bytes
        if size > self._max_bytes:
            old = self._entries.get(entry.key)
            if old is not None:
                self._drop((old,), "replaced")
            return False
        old = self._entries.pop(entry.key, None)
        if old is not None:
            self._size_bytes -= old.size_bytes
            self._tags.discard(old)
        expired, evicted = self._make_room(size)
        self._entries[entry.key] = entry
        self._size_bytes += size
        self._tags.add(entry)
        self._policy.on_put(entry.key, size)
        self._note_expiry(entry)
        self._report(expired, "expired")
        self._report(evicted, "capacity")
        return True

    def apply(self, change: Change) -> None:
        """Follow one change of the feed; moved sources and judgements are others' business."""
        match change:
            case Invalidated(position, selector):
                meant = [entry for entry in self._meant(selector) if entry.as_of < position]
                self._drop(meant, "invalidated")
            case Replaced(key=key):
                self._drop(self._meant(Selector(key=key)), "replaced")
            case Lost():
                self.clear()
            case SourceMoved() | Judged():
                pass
            case _:
                assert_never(change)

    def invalidate(self, selector: Selector) -> int:
        """Remove the entries ``selector`` means and return how many there were."""
        meant = self._meant(selector)
        self._drop(meant, "invalidated")
        return len(meant)

    def count(self, selector: Selector) -> int:
        """Return how many entries ``selector`` means, expired ones included."""
        return len(self._meant(selector))

    def clear(self) -> None:
        """Remove everything."""
        self.invalidate(Selector())

    def _meant(self, selector: Selector) -> list[Entry]:
        return [entry for entry in self._candidates(selector) if selector.matches(entry)]

    def _candidates(self, selector: Selector) -> Iterable[Entry]:
        if selector.key is not None:
            entry = self._entries.get(selector.key)
            return () if entry is None else (entry,)
        if selector.tag is not None:
            return [self._entries[key] for key in self._tags.keys(selector.tag)]
        return self._entries.values()

    def _make_room(self, size: int) -> tuple[list[Entry], list[Entry]]:
        """Remove entries until one more of ``size`` bytes fits.

        Returns:
            The expired ones, and those the policy gave up.
        """
        now = self._clock.now()
        expired: list[Entry] = []
        evicted: list[Entry] = []
        while len(self._entries) >= self._max_entries or self._size_bytes + size > self._max_bytes:
            entry = self._next_expired(now)
            if entry is not None:
                expired.append(entry)
                self._forget(entry)
                continue
            victim = self._entries.pop(self._policy.victim(), None)
            # None: the policy gave up the very key that is being replaced.
            if victim is not None:
                evicted.append(victim)
                self._size_bytes -= victim.size_bytes
                self._tags.discard(victim)
        return expired, evicted

    def _next_expired(self, now: float) -> Entry | None:
        expiries = self._expiries
        while expiries and expiries[0][0] <= now:
            keep_until, key = heapq.heappop(expiries)
            entry = self._entries.get(key)
            if entry is not None and entry.keep_until == keep_until:
                return entry
        return None

    def _note_expiry(self, entry: Entry) -> None:
        if len(self._expiries) < 2 * len(self._entries) + _HEAP_SLACK:
            heapq.heappush(self._expiries, (entry.keep_until, entry.key))
        else:
            self._expiries = [(held.keep_until, held.key) for held in self._entries.values()]
            heapq.heapify(self._expiries)

    def _drop(self, entries: Iterable[Entry], reason: str) -> None:
        entries = tuple(entries)
        for entry in entries:
            self._forget(entry)
        self._report(entries, reason)

    def _forget(self, entry: Entry) -> None:
        del self._entries[entry.key]
        self._size_bytes -= entry.size_bytes
        self._tags.discard(entry)
        self._policy.on_delete(entry.key)

    def _report(self, entries: Iterable[Entry], reason: str) -> None:
        sizes = [entry.size_bytes for entry in entries]
        if sizes:
            self._events.emit(Evicted(Tier.MEMORY, reason, len(sizes), sum(sizes)))
