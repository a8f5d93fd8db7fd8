"""Which entries are gone although their bytes may still be in Redis.

An invalidation is one message; removing what it means takes a walk through the store. In between,
and for answers that were on their way to the store, every gateway asks this for each entry it reads
and each that it writes.
"""

from collections import defaultdict

from stepwell.core.changes import Invalidated
from stepwell.core.names import CacheKey, Position
from stepwell.stores.named import Named, named_by
from stepwell.stores.redis.facets import Facets, Shape, names_of, shape_of


class Epochs:
    """The latest invalidation by each selector. One event loop; not thread-safe."""

    def __init__(self, floor: Position = Position(0)) -> None:  # noqa: B008  (an int)
        """Know of none.

        Args:
            floor: Invalidations up to here may be unknown: every entry as of before is gone.
        """
        self._floor = floor
        self._by_shape: dict[Shape, dict[Named, Position]] = defaultdict(dict)

    def __len__(self) -> int:
        """Return how many invalidations are kept."""
        return sum(map(len, self._by_shape.values()))

    def note(self, change: Invalidated) -> None:
        """Keep an invalidation, in place of an earlier one by the same selector."""
        named = named_by(change.selector)
        self._by_shape[shape_of(named)][named] = change.position

    def forget(self, until: Position) -> None:
        """Forget the invalidations up to a position: all that they mean has been removed."""
        for shape, latest in list(self._by_shape.items()):
            left = {named: at for named, at in latest.items() if at > until}
            if left:
                self._by_shape[shape] = left
            else:
                del self._by_shape[shape]

    def until(self, position: Position) -> "Epochs":
        """Return the invalidations up to a position."""
        some = Epochs(self._floor)
        for shape, latest in self._by_shape.items():
            if held := {named: at for named, at in latest.items() if at <= position}:
                some._by_shape[shape] = held
        return some

    def keys(self) -> frozenset[CacheKey]:
        """Return the keys they name; nothing if one of them names none."""
        named = [named[0] for latest in self._by_shape.values() for named in latest]
        return frozenset(CacheKey(key) for key in named if key is not None and None not in named)

    def outrun(self, key: CacheKey, facets: Facets) -> bool:
        """Return whether an invalidation later than ``facets.as_of`` means the entry.

        Costs 0.1 us if none is kept, and half a microsecond for each kind of selector among them.
        """
        as_of = facets.as_of
        if as_of < self._floor:
            return True
        for shape, latest in self._by_shape.items():
            for named in names_of(key, facets, shape):
                if latest.get(named, 0) > as_of:
                    return True
        return False
