"""What this worker removed lately, to be removed from segments that others wrote meanwhile."""

from collections import OrderedDict, deque
from dataclasses import dataclass

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position

_KEYS = 10_000
_SELECTORS = 1_000


@dataclass(frozen=True, slots=True)
class Removal:
    """Points of entries that ``selector`` means, from before ``before``, are gone."""

    before: Position
    selector: Selector


class RecentRemovals:
    """The last removals, up to a bound.

    A segment may come from a worker that had not read a change yet which this one has obeyed.
    What is older than the bound, or than what a manifest says is done, is forgotten: a point that
    comes back so is dirty, not wrong, for its entry is looked for in the store.
    """

    def __init__(self) -> None:
        self._keys: OrderedDict[CacheKey, Position] = OrderedDict()
        self._selectors: deque[Removal] = deque(maxlen=_SELECTORS)

    def add_key(self, key: CacheKey, before: Position) -> None:
        """Note that points under ``key`` from before ``before`` are gone."""
        self._keys[key] = max(before, self._keys.pop(key, before))
        if len(self._keys) > _KEYS:
            self._keys.popitem(last=False)

    def forget_key(self, key: CacheKey) -> None:
        """Note that there is a newer point under ``key``."""
        self._keys.pop(key, None)

    def add_selector(self, selector: Selector, before: Position) -> None:
        """Note an invalidation."""
        self._selectors.append(Removal(before, selector))

    def keys(self) -> dict[CacheKey, Position]:
        """Return the removed keys."""
        return dict(self._keys)

    def selectors_after(self, position: Position) -> list[Removal]:
        """Return the invalidations later than ``position``."""
        return [removal for removal in self._selectors if removal.before > position]

    def forget_selectors_to(self, position: Position) -> None:
        """Drop the invalidations up to ``position``."""
        kept = self.selectors_after(position)
        self._selectors.clear()
        self._selectors.extend(kept)

    def clear(self) -> None:
        """Forget all."""
        self._keys.clear()
        self._selectors.clear()
