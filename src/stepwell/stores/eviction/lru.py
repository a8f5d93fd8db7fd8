"""Least recently used."""

from collections import OrderedDict

from stepwell.core.names import CacheKey


class Lru:
    """Evicts the key that was read or put longest ago.

    Every call is O(1). Remembers nothing about keys that are gone.
    """

    __slots__ = ("_order",)

    def __init__(self) -> None:
        self._order: OrderedDict[CacheKey, None] = OrderedDict()
        """Least recently used first."""

    def on_put(self, key: CacheKey, size_bytes: int) -> None:  # noqa: ARG002  (the port's shape)
        """Note that ``key`` came in, or was replaced; either counts as a use."""
        self._order[key] = None
        self._order.move_to_end(key)

    def on_hit(self, key: CacheKey) -> None:
        """Note that ``key``, which must be held, was read."""
        self._order.move_to_end(key)

    def on_delete(self, key: CacheKey) -> None:
        """Forget ``key``."""
        self._order.pop(key, None)

    def victim(self) -> CacheKey:
        """Return the least recently used key and forget it.

        Raises:
            LookupError: No key is held.
        """
        if not self._order:
            raise LookupError("no key to evict")
        return self._order.popitem(last=False)[0]
