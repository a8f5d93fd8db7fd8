"""How often an answer to other words is right, as far as those that were judged can tell."""

from collections import defaultdict

from stepwell.policy.intervals import wilson
from stepwell.telemetry.catalogue import JUDGED, PRECISION
from stepwell.telemetry.series import Series, Values

_AT_RANDOM = frozenset({"sample", "shadow"})
"""What people judge is no random sample: they speak of what is wrong."""


def live_precision(counters: Values) -> dict[Series, float]:
    """Return the gauges of `PRECISION` that follow from ``counters``, the sums over all workers.

    An estimate and the two ends of its 95 % interval for each class and reason of judging; nothing
    where nothing was judged.
    """
    judged: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for series, count in counters.items():
        if series.name == JUDGED.name and series.label("by") in _AT_RANDOM and count > 0:
            place = series.label("class"), series.label("by")
            judged[place][series.label("verdict")] = count
    gauges: dict[Series, float] = {}
    for (request_class, by), counts in judged.items():
        right = counts.get("right", 0.0)
        total = right + counts.get("wrong", 0.0)
        interval = wilson(right, total)
        bounds = {"lower": interval.low, "estimate": right / total, "upper": interval.high}
        for bound, value in bounds.items():
            labels = zip(PRECISION.labels, (request_class, by, bound), strict=True)
            gauges[Series(PRECISION.name, tuple(labels))] = value
    return gauges
