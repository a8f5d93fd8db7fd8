"""How often a key was asked for lately, in a few bytes a key, whether the key is held or not."""

from typing import Final

from stepwell.core.names import CacheKey

MAX_COUNT: Final = 15
"""Counts stop here."""

USES_PER_ENTRY: Final = 10
"""Uses counted before a halving, for each entry the table has room for."""

SLOTS_PER_ENTRY: Final = 32
"""One-byte slots for each entry of the cache."""

_FIRST_SLOTS: Final = 1 << 14
"""A small cache gets this many all the same: a loop over a thousand keys must still be seen
by a cache of ten."""

_HALVED: Final = bytes(count // 2 for count in range(256))


class FrequencySketch:
    """A count-min sketch with two slots a key and conservative update; it ages by halving.

    Keys are SHA-256 digests, so their own bytes serve as hashes. Ageing apart, a count is never
    too low; it may be too high. Source: Einziger, Friedman, Manes, "TinyLFU: A Highly Efficient
    Cache Admission Policy", 2017.
    """

    __slots__ = ("_adds", "_slots")

    def __init__(self) -> None:
        self._slots = bytearray(_FIRST_SLOTS)
        self._adds = 0

    def reserve(self, entries: int) -> None:
        """Make room for a cache of ``entries``, keeping every count.

        Doubling repeats the table: a key's slot in the larger table is the old one, or the old
        one plus the old size, and both hold the old count.
        """
        while len(self._slots) < entries * SLOTS_PER_ENTRY:
            self._slots = self._slots * 2

    def add(self, key: CacheKey) -> None:
        """Count one use of ``key``; halve all counts when it is time.

        Halving is one C call over the table, once in ten uses an entry: O(1) amortised.
        """
        slots, mask = self._slots, len(self._slots) - 1
        digest = int.from_bytes(key[:8], "little")
        first, second = digest & mask, (digest >> 32) & mask
        count_first, count_second = slots[first], slots[second]
        if count_first < count_second:
            slots[first] = count_first + 1
        elif count_second < count_first:
            slots[second] = count_second + 1
        elif count_first < MAX_COUNT:
            slots[first] = slots[second] = count_first + 1
        self._adds += 1
        if self._adds * SLOTS_PER_ENTRY >= USES_PER_ENTRY * len(slots):
            self._adds //= 2
            self._slots = slots.translate(_HALVED)

    def count(self, key: CacheKey) -> int:
        """Return how often ``key`` was used lately, 0 to `MAX_COUNT`."""
        slots, mask = self._slots, len(self._slots) - 1
        digest = int.from_bytes(key[:8], "little")
        return min(slots[digest & mask], slots[(digest >> 32) & mask])
