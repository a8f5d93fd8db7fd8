"""Counters and histograms in plain Python objects: one event loop, no locks."""

from bisect import bisect_left

from stepwell.telemetry.catalogue import MAX_LABEL_VALUES, OTHER, Metric
from stepwell.telemetry.series import Series

_MAX_VALUE_CHARACTERS = 128


class LabelBounds:
    """Keeps the number of label values bounded, so that callers cannot grow memory without end.

    Shared by all metrics of a process, so that a model stands under its own name in all of them
    or in none.
    """

    __slots__ = ("_max_values", "_seen")

    def __init__(self, max_values: int = MAX_LABEL_VALUES) -> None:
        self._max_values = max_values
        self._seen: dict[str, set[str]] = {}

    def admit(self, label: str, value: str) -> str:
        """Return ``value``, or `OTHER` if it is one too many, over-long or not text."""
        seen = self._seen.setdefault(label, set())
        if value in seen:
            return value
        if len(seen) >= self._max_values or not _is_usable(value):
            return OTHER
        seen.add(value)
        return value


def _is_usable(value: str) -> bool:
    if len(value) > _MAX_VALUE_CHARACTERS:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate, from a ``\ud800`` in a caller's JSON
        return False
    return True


class Counter:
    """A number that only grows; whoever counts adds to ``value``."""

    __slots__ = ("series", "value")

    def __init__(self, series: Series) -> None:
        self.series = series
        self.value: float = 0
        """An `int` as long as only integers are added, so that counts stay exact."""


class Histogram:
    """Observations in buckets."""

    __slots__ = ("_bounds", "_bucket_series", "_counts", "_sum", "_sum_series")

    def __init__(self, metric: Metric, labels: tuple[tuple[str, str], ...]) -> None:
        self._bounds = metric.buckets
        self._counts = [0] * (len(metric.buckets) + 1)
        self._sum = 0.0
        self._sum_series = Series(f"{metric.name}_sum", labels)
        self._bucket_series = [
            Series(f"{metric.name}_bucket", (*labels, ("le", bound)))
            for bound in (*map(repr, metric.buckets), "+Inf")
        ]

    def observe(self, value: float) -> None:
        """Count ``value`` in the first bucket whose bound is not below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read_into(self, values: dict[Series, float]) -> None:
        """Add this histogram's series that are not 0 to ``values``."""
        if self._sum:
            values[self._sum_series] = self._sum
        buckets = zip(self._bucket_series, self._counts, strict=True)
        values.update((series, count) for series, count in buckets if count)


class CounterFamily:
    """The counters of one metric, by label values."""

    __slots__ = ("_bounds", "_counters", "_metric")

    def __init__(self, metric: Metric, bounds: LabelBounds) -> None:
        self._metric = metric
        self._bounds = bounds
        self._counters: dict[tuple[str, ...], Counter] = {}

    def at(self, *values: str) -> Counter:
        """Return the counter for these label values, in the catalogue's order."""
        counter = self._counters.get(values)
        if counter is None:
            labels = _admit(self._metric, values, self._bounds)
            series = Series(self._metric.name, labels)
            admitted = tuple(value for _, value in labels)
            counter = self._counters.setdefault(admitted, Counter(series))
        return counter

    def read_into(self, values: dict[Series, float]) -> None:
        """Add this metric's series that are not 0 to ``values``."""
        values.update(
            (counter.series, counter.value) for counter in self._counters.values() if counter.value
        )


class HistogramFamily:
    """The histograms of one metric, by label values."""

    __slots__ = ("_bounds", "_histograms", "_metric")

    def __init__(self, metric: Metric, bounds: LabelBounds) -> None:
        self._metric = metric
        self._bounds = bounds
        self._histograms: dict[tuple[str, ...], Histogram] = {}

    def at(self, *values: str) -> Histogram:
        """Return the histogram for these label values, in the catalogue's order."""
        histogram = self._histograms.get(values)
        if histogram is None:
            labels = _admit(self._metric, values, self._bounds)
            admitted = tuple(value for _, value in labels)
            histogram = self._histograms.setdefault(admitted, Histogram(self._metric, labels))
        return histogram

    def read_into(self, values: dict[Series, float]) -> None:
        """Add this metric's series that are not 0 to ``values``."""
        for histogram in self._histograms.values():
            histogram.read_into(values)


def _admit(
    metric: Metric, values: tuple[str, ...], bounds: LabelBounds
) -> tuple[tuple[str, str], ...]:
    """Pair labels and values; values become plain strings, as enum members would stay enums."""
    return tuple(
        (label, bounds.admit(label, str(value)))
        for label, value in zip(metric.labels, values, strict=True)
    )
