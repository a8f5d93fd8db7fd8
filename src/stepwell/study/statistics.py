"""How sure a share is that was counted on a sample."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
RESAMPLES = 500
_AT_ONCE = 100

Counts = npt.NDArray[np.float64]
"""Shape ``(clusters, columns)``: a column is something that was counted, such as a threshold."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a share lies, most likely; both ends from 0 to 1."""

    low: float
    high: float


ANYWHERE = Interval(0.0, 1.0)


def wilson(good: float, total: float, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval of a share (Wilson 1927, JASA 22, 209-212).

    Unlike the textbook's, it says something sensible where all are good.
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


def bootstrap(
    good: Counts, total: Counts, *, seed: int = 0, confidence: float = CONFIDENCE
) -> list[Interval]:
    """Return the interval of ``good / total`` of each column by drawing whole clusters.

    Texts that were labelled together are not independent: who draws single pairs is too sure
    (Efron & Tibshirani 1993, ch. 8; the percentile interval). The same seed gives the same
    intervals. Cost: some ten milliseconds for a thousand clusters and a hundred columns.
    """
    clusters, columns = good.shape
    if not clusters:
        return [ANYWHERE] * columns
    generator = np.random.default_rng(seed)
    shares: list[npt.NDArray[np.float64]] = []
    even = np.full(clusters, 1 / clusters)
    for start in range(0, RESAMPLES, _AT_ONCE):
        count = min(_AT_ONCE, RESAMPLES - start)
        drawn = generator.multinomial(clusters, even, size=count).astype(np.float64)
        totals = drawn @ total
        with np.errstate(invalid="ignore", divide="ignore"):
            shares.append(drawn @ good / totals)
    return [_percentiles(column, confidence) for column in np.concatenate(shares).T]


def _percentiles(shares: npt.NDArray[np.float64], confidence: float) -> Interval:
    known = shares[np.isfinite(shares)]
    if not known.size:
        return ANYWHERE
    tail = (1 - confidence) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return Interval(float(low), float(high))


def clusters_of(pairs: Iterable[Sequence[str]]) -> list[int]:
    """Return for each pair of texts the number of its cluster: pairs that share a text share it,
    directly or through other pairs. Numbers go from 0 without gaps, in the order of the pairs.
    """
    parents: dict[str, str] = {}
    roots = []
    for one, other in pairs:
        first, second = _root(parents, one), _root(parents, other)
        parents[second] = first
        roots.append(first)
    numbers: dict[str, int] = {}
    return [numbers.setdefault(_root(parents, root), len(numbers)) for root in roots]


def _root(parents: dict[str, str], text: str) -> str:
    root = parents.setdefault(text, text)
    while parents[root] != root:
        # Halves the way for those who come after.
        parents[root] = parents[parents[root]]
        root = parents[root]
    return root


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
