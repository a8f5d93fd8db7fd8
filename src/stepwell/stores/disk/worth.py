"""How much an entry is worth keeping: one number, from how often and how lately it was used."""

import math

HALF_LIFE_SECONDS = 3_600.0
"""A use this long ago counts half of one now. Shorter leans to LRU, longer to LFU."""


def used(worth: float, now: float, uses: int) -> float:
    """Return the worth of an entry after ``uses`` (at least 1) more uses at ``now``.

    Least recently/frequently used (LRFU; Lee et al., IEEE Trans. Computers 50(12), 2001) with
    the sum of decayed uses kept as a *moment*: an entry is worth as much as one that was used
    once, at that moment. The order of two entries then never changes by itself, so it can
    stand in an index; a new entry is worth ``now``. Any jump of the clock gives a finite number.
    """
    ahead = (worth - now) / HALF_LIFE_SECONDS
    fresh = math.log2(uses)
    high, low = max(ahead, fresh), min(ahead, fresh)
    return now + HALF_LIFE_SECONDS * (high + math.log2(1.0 + 2.0 ** (low - high)))
