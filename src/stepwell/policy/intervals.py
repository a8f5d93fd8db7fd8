"""How sure a share is that was counted on a sample. Pure."""

import math
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a share lies, most likely; both ends from 0 to 1."""

    low: float
    high: float


ANYWHERE = Interval(0.0, 1.0)


def wilson(good: float, total: float, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval of a share (Wilson 1927, JASA 22, 209-212).

    Unlike the textbook's, it says something sensible where all, or none, are good. Nothing counted
    says nothing: `ANYWHERE`.
    """
    if total <= 0:
        return ANYWHERE
    z = _quantile(confidence)
    share = good / total
    scale = 1 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / scale
    # With all or none good one end is exact; rounding must not say otherwise.
    low = 0.0 if good <= 0 else max(0.0, centre - half)
    high = 1.0 if good >= total else min(1.0, centre + half)
    return Interval(low, high)


def needed_for(target: float, confidence: float = CONFIDENCE) -> int:
    """Return how many, all good, show by Wilson's lower end that a share is at least ``target``.

    `wilson` of n out of n begins at n / (n + z^2).
    """
    if target >= 1:
        raise ValueError("no number of examples shows that a share is 1")
    z = _quantile(confidence)
    # An integer that came out a hair too high is one too many.
    return max(1, math.ceil(z * z * target / (1 - target) - 1e-9))


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
