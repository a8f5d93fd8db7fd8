"""One number with a name and labels, and collections of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Series(NamedTuple):
    """What identifies one number. Hashable; the labels are in the catalogue's order.

    A histogram has one series per bucket that is not empty (``name_bucket``, last label ``le``;
    each observation stands in exactly one bucket, buckets are not cumulative) and one for the sum
    of what was observed (``name_sum``). Its count is the sum of its buckets.
    """

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def label(self, name: str) -> str:
        """Return the value of label ``name``. Raises `KeyError` if there is none."""
        return dict(self.labels)[name]


Values = Mapping[Series, float]
"""The value of each series at one moment. What is not in it is 0."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything a metrics page shows, at one moment."""

    counters: Values
    """Counters and histograms since the server started."""
    gauges: Values
    """Levels of now, and the live precision, which is over all runs."""


def increase(now: Values, before: Values) -> dict[Series, float]:
    """Return by how much each series in ``now`` grew since ``before``, where it did."""
    return {
        series: value - before.get(series, 0)
        for series, value in now.items()
        if value != before.get(series, 0)
    }


def add_up(parts: Values, *more: Values) -> dict[Series, float]:
    """Return the sum of several collections, series by series."""
    total = dict(parts)
    for part in more:
        for series, value in part.items():
            total[series] = total.get(series, 0) + value
    return total
