"""Precision and hit rate at every similarity, with how sure they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepwell.policy.intervals import Interval, wilson
from stepwell.study.labels import Measured
from stepwell.study.statistics import Counts, bootstrap, clusters_of

MAX_POINTS = 100
_STEP = 1_000
"""Similarities are rounded up to the third digit: nobody sets a finer level."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What a level of ``similarity`` would do to the pairs."""

    similarity: float
    hits: int
    right: int
    """Hits on pairs whose answer may be shared."""
    hit_rate: float | None
    """Of those pairs, how many are hits; ``None`` if there are none."""
    false_hit_rate: float | None
    """Of the pairs whose answer must not be shared, how many are hits."""
    precision: Interval
    """Where the precision lies, by Wilson."""
    precision_by_cluster: Interval
    """The same by drawing clusters of pairs that share texts."""

    @property
    def measured(self) -> float | None:
        """The precision as counted; ``None`` without hits."""
        return self.right / self.hits if self.hits else None

    @property
    def sure(self) -> float:
        """What the precision is at least: the lower of the two intervals' lower ends."""
        return min(self.precision.low, self.precision_by_cluster.low)

    def as_json(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        return {
            "similarity": self.similarity,
            "hits": self.hits,
            "right": self.right,
            "hit_rate": self.hit_rate,
            "false_hit_rate": self.false_hit_rate,
            "precision": self.measured,
            "precision_wilson": [self.precision.low, self.precision.high],
            "precision_bootstrap": [
                self.precision_by_cluster.low,
                self.precision_by_cluster.high,
            ],
        }


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of some pairs, by rising similarity."""

    pairs: int
    may_share: int
    """Pairs whose answer may be shared."""
    clusters: int
    points: Sequence[CurvePoint]


def draw(pairs: Sequence[Measured], *, with_valve: bool) -> Curve:
    """Return the curve of ``pairs``, with what the safety valve refuses counted as refused or not.

    Cost: some 50 ms for a thousand pairs, most of it for drawing clusters.
    """
    similarities = np.array([pair.similarity for pair in pairs])
    right = np.array([pair.right for pair in pairs], dtype=bool)
    passed = np.array([not with_valve or pair.refused_by is None for pair in pairs], dtype=bool)
    numbers = clusters_of(pair.texts for pair in pairs)
    clusters = np.array(numbers, dtype=np.intp)
    thresholds = _thresholds(similarities[passed])
    count = max(numbers, default=-1) + 1
    hits = _at_least(similarities, passed, clusters, thresholds, count)
    rights = _at_least(similarities, passed & right, clusters, thresholds, count)
    by_cluster = bootstrap(rights, hits)
    may_share = int(right.sum())
    total_hits, total_rights = hits.sum(axis=0), rights.sum(axis=0)
    points = [
        _point(float(threshold), int(hit), int(good), (may_share, len(pairs)), drawn)
        for threshold, hit, good, drawn in zip(
            thresholds, total_hits, total_rights, by_cluster, strict=True
        )
    ]
    return Curve(len(pairs), may_share, count, points)


def _thresholds(similarities: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return where to look: closest where most pairs are, to the third digit."""
    if not similarities.size:
        return np.zeros(0)
    quantiles = np.quantile(similarities, np.linspace(0, 1, MAX_POINTS), method="lower")
    # Rounded down, so that the pair at the quantile is still a hit.
    return np.unique(np.floor(quantiles * _STEP) / _STEP)


def _at_least(
    similarities: npt.NDArray[np.float64],
    counted: npt.NDArray[np.bool_],
    clusters: npt.NDArray[np.intp],
    thresholds: npt.NDArray[np.float64],
    count: int,
) -> Counts:
    """Return how many pairs of each cluster are at least so similar, for each threshold."""
    table = np.zeros((count, len(thresholds)))
    if thresholds.size:
        # The last threshold that a pair reaches; it reaches all before, too.
        last = np.searchsorted(thresholds, similarities[counted], side="right") - 1
        reached = last >= 0
        np.add.at(table, (clusters[counted][reached], last[reached]), 1)
    return np.cumsum(table[:, ::-1], axis=1)[:, ::-1]


def _point(
    similarity: float, hits: int, right: int, among: tuple[int, int], drawn: Interval
) -> CurvePoint:
    may_share, pairs = among
    must_not = pairs - may_share
    return CurvePoint(
        similarity=similarity,
        hits=hits,
        right=right,
        hit_rate=right / may_share if may_share else None,
        false_hit_rate=(hits - right) / must_not if must_not else None,
        precision=wilson(right, hits),
        precision_by_cluster=drawn,
    )
