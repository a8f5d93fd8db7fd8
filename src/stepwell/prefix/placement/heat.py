"""Which prefixes many requests part at: what they share, and what share of them shares it."""

from collections.abc import Hashable

_BEFORE = 8
"""Repeats elsewhere that are assumed at the start, so that the first few say little."""

_LEAST = 0.5
"""Places that faded below this are forgotten."""


class Heat:
    """Counts of the places where prompts leave what is known, fading with time.

    A conversation leaves its own prefix once a turn, at a new place each time; requests with one
    system prompt leave it at the same place again and again. So only repeats count, and the share
    of one place among them says how much of the new work begins with it.

    Costs 0.3 us a note, and now and then 100 us; some 250 bytes a place, of which at most twice
    ``window`` are kept. Not thread-safe.
    """

    def __init__(self, window: int = 1024) -> None:
        """Start with no place.

        Args:
            window: After so many notes, what was counted before counts half.
        """
        self._window = window
        self._notes = 0
        self._repeats: dict[Hashable, float] = {}
        self._all_repeats = 0.0

    def note(self, place: Hashable) -> float:
        """Count a request that leaves at a place; return the place's share of all repeats."""
        self._notes += 1
        if self._notes >= self._window:
            self._fade()
        repeats = self._repeats.get(place, -1.0) + 1.0
        self._repeats[place] = repeats
        if repeats:
            self._all_repeats += 1.0
        return repeats / (self._all_repeats + _BEFORE)

    def _fade(self) -> None:
        self._notes = 0
        halves = {place: repeats / 2 for place, repeats in self._repeats.items()}
        self._repeats = {place: half for place, half in halves.items() if half >= _LEAST}
        self._all_repeats = sum(self._repeats.values())
