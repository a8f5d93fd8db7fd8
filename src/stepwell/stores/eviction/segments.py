"""An order of keys in three segments, and the contest at its gate.

New keys enter the *window*, an LRU. A key that leaves the window is a candidate for the *main*
part, and must show that it is asked for often enough to displace what would leave there. The
main part is a segmented LRU: keys enter on *probation*, and one more hit makes them *protected*.
This is the shape of W-TinyLFU; what is "often enough" is the plan's.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from stepwell.core.names import CacheKey
from stepwell.stores.eviction.sketch import FrequencySketch

PROTECTED_SHARE: Final = 0.8
"""Share of the main part that may be protected."""

MARGIN: Final = 2
"""A candidate's count must exceed its opponent's by more than this. In a loop over more keys
than fit, each candidate was counted once more than the keys still waiting for their turn in
this round; without a margin it displaces one of them just before it is needed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How large the window is, and what a candidate must show."""

    window_share: float
    """Share of all entries, 0 to 1; at least one entry."""
    enough: int
    """A candidate with a higher count than this enters, whatever it displaces."""


class Segments:
    """The keys of one cache, in the order in which they leave. Every call is O(1) amortised."""

    __slots__ = ("_probation", "_protected", "_protected_limit", "_window")

    def __init__(self) -> None:
        self._window: OrderedDict[CacheKey, None] = OrderedDict()
        self._probation: OrderedDict[CacheKey, None] = OrderedDict()
        self._protected: OrderedDict[CacheKey, None] = OrderedDict()
        self._protected_limit = 0

    def __len__(self) -> int:
        """Return the number of keys held."""
        return len(self._window) + len(self._probation) + len(self._protected)

    def __iter__(self) -> Iterator[CacheKey]:
        """Yield all keys, those of the main part first."""
        return chain(self._probation, self._protected, self._window)

    def touch(self, key: CacheKey) -> bool:
        """Note a use of ``key``; return ``False`` if it is not held."""
        if key in self._window:
            self._window.move_to_end(key)
        elif key in self._protected:
            self._protected.move_to_end(key)
        elif key in self._probation:
            del self._probation[key]
            self._protected[key] = None
            self._demote()
        else:
            return False
        return True

    def add(self, key: CacheKey) -> None:
        """Take in ``key``, which must not be held."""
        self._window[key] = None

    def discard(self, key: CacheKey) -> None:
        """Forget ``key`` if it is held."""
        for segment in (self._window, self._probation, self._protected):
            segment.pop(key, 0)

    def evict(self, plan: Plan, sketch: FrequencySketch) -> CacheKey:
        """Choose a key as ``plan`` says, and forget it.

        A changed plan takes effect here: a window that is too large overflows into the main part
        without a contest, one that is too small grows at the main part's cost.

        Raises:
            LookupError: No key is held.
        """
        room = self._apply(plan)
        main = self._probation or self._protected
        if not main and not self._window:
            raise LookupError("no key to evict")
        if not main or len(self._window) < room:
            return (main or self._window).popitem(last=False)[0]
        candidate = self._window.popitem(last=False)[0]
        opponent = next(iter(main))
        count = sketch.count(candidate)
        if count <= plan.enough and count <= sketch.count(opponent) + MARGIN:
            return candidate
        del main[opponent]
        self._probation[candidate] = None
        return opponent

    def _apply(self, plan: Plan) -> int:
        """Move the bounds between the segments, and the keys that are past them.

        Returns:
            How many keys the window may hold.
        """
        held = len(self._window) + len(self._probation) + len(self._protected)
        room = int(held * plan.window_share) or 1
        self._protected_limit = int((held - room) * PROTECTED_SHARE)
        if len(self._protected) > self._protected_limit:
            self._demote()
        while len(self._window) > room:
            self._probation[self._window.popitem(last=False)[0]] = None
        return room

    def _demote(self) -> None:
        while len(self._protected) > self._protected_limit:
            self._probation[self._protected.popitem(last=False)[0]] = None
