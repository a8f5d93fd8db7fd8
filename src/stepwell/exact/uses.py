"""Uses that the store did not see, counted until it is told of them."""

from collections.abc import Callable, Mapping

from stepwell.core.names import CacheKey

MAX_UNTOLD_KEYS = 1_000
"""The store is told of uses when so many keys have some, and whenever it is read anyway."""


class Uses:
    """How often each key was used since the store was last told. Bounded."""

    __slots__ = ("_counts", "_touch")

    def __init__(self, touch: Callable[[Mapping[CacheKey, int]], None]) -> None:
        self._touch = touch
        self._counts: dict[CacheKey, int] = {}

    def note(self, key: CacheKey) -> None:
        """Count one use. On the hot path: a look-up and an addition."""
        counts = self._counts
        counts[key] = counts.get(key, 0) + 1
        if len(counts) >= MAX_UNTOLD_KEYS:
            self.tell()

    def tell(self) -> None:
        """Hand over what was counted."""
        if self._counts:
            counts, self._counts = self._counts, {}
            self._touch(counts)
