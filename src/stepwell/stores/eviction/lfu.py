"""Least frequently used, with dynamic ageing, so that yesterday's hot keys do not stay for ever.

A key's rank is its number of uses plus an age: the rank of the last key evicted. A key that is
no longer read keeps its rank while new keys start ever higher, until they pass it. Among equal
ranks the least recently used leaves first. The ageing is that of LFU-DA: Arlitt, Cherkasova,
Dilley, Friedrich, Jin, "Evaluating content management techniques for Web proxy caches", 1999.

Expiry is the store's business: expired entries leave before any policy is asked.
"""

from collections import OrderedDict

from stepwell.core.names import CacheKey

MAX_USES = 15
"""Uses counted per key. Bounds the search for the lowest rank, and so the work of a victim;
more than this says little about tomorrow."""


class Lfu:
    """Evicts the key that was used least often lately.

    Every call is O(1); `victim` looks at no more than `MAX_USES` ranks. Remembers nothing about
    keys that are gone.
    """

    __slots__ = ("_age", "_ranks", "_uses")

    def __init__(self) -> None:
        self._age = 0
        """No held key ranks lower."""
        self._uses: dict[CacheKey, tuple[int, int]] = {}
        """Uses and rank of each key held."""
        self._ranks: dict[int, OrderedDict[CacheKey, None]] = {}
        """Keys of each rank that has any, least recently used first."""

    def on_put(self, key: CacheKey, size_bytes: int) -> None:  # noqa: ARG002  (the port's shape)
        """Note that ``key`` came in, or was replaced; either counts as a use."""
        if key in self._uses:
            self.on_hit(key)
        else:
            self._place(key, 1)

    def on_hit(self, key: CacheKey) -> None:
        """Note that ``key``, which must be held, was read."""
        uses, rank = self._uses[key]
        self._leave(key, rank)
        self._place(key, min(uses + 1, MAX_USES))

    def on_delete(self, key: CacheKey) -> None:
        """Forget ``key``."""
        uses_and_rank = self._uses.pop(key, None)
        if uses_and_rank is not None:
            self._leave(key, uses_and_rank[1])

    def victim(self) -> CacheKey:
        """Return the key of the lowest rank, forget it, and make its rank the new age.

        Raises:
            LookupError: No key is held.
        """
        if not self._uses:
            raise LookupError("no key to evict")
        while self._age not in self._ranks:
            self._age += 1
        key = next(iter(self._ranks[self._age]))
        del self._uses[key]
        self._leave(key, self._age)
        return key

    def _place(self, key: CacheKey, uses: int) -> None:
        rank = self._age + uses
        self._uses[key] = (uses, rank)
        keys = self._ranks.get(rank)
        if keys is None:
            keys = self._ranks[rank] = OrderedDict()
        keys[key] = None

    def _leave(self, key: CacheKey, rank: int) -> None:
        keys = self._ranks[rank]
        del keys[key]
        if not keys:
            del self._ranks[rank]
