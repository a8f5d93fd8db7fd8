"""The metrics page, in the text formats of Prometheus and OpenMetrics."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from stepwell.telemetry.catalogue import CATALOGUE, Kind, Metric
from stepwell.telemetry.series import Reading, Series, Values

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TEXT = openmetrics.CONTENT_TYPE_LATEST

_NO_PAGES: Mapping[str, str] = {}

_ByMetric = dict[str, list[tuple[Series, float]]]


@dataclass(frozen=True, slots=True)
class Page:
    """A rendered metrics page."""

    body: bytes
    content_type: str


def render_metrics(
    reading: Reading, accept: str = "", beside: Mapping[str, str] = _NO_PAGES
) -> Page:
    """Render ``reading``; metrics without a series yet have their help and type.

    Costs some 10 us a line: for a large page call it outside the event loop.

    Args:
        reading: From `LedgerWriter.read`, or from meters and gauges directly.
        accept: The request's ``Accept`` header. A client that names OpenMetrics gets it.
        beside: Pages of engines that run here, in Prometheus's format, by the names of the
            upstreams: their series are shown with a label ``upstream``.
    """
    registry = CollectorRegistry()
    registry.register(_ReadingCollector(reading))
    registry.register(_Beside(beside))
    if "application/openmetrics-text" in accept.lower():
        body = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return Page(body, OPENMETRICS_TEXT)
    return Page(generate_latest(registry), PROMETHEUS_TEXT)


class _ReadingCollector(Collector):
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterator[Family]:
        """Yield the catalogue's metrics with the reading's series."""
        counters = _by_metric(self._reading.counters)
        gauges = _by_metric(self._reading.gauges)
        for metric in CATALOGUE:
            match metric.kind:
                case Kind.COUNTER:
                    yield _counter(metric, counters)
                case Kind.GAUGE:
                    yield _gauge(metric, gauges)
                case Kind.HISTOGRAM:
                    yield _histogram(metric, counters)


class _Beside(Collector):
    def __init__(self, pages: Mapping[str, str]) -> None:
        self._pages = pages

    def collect(self) -> Iterator[Family]:
        """Yield the pages' metrics, those of one name together."""
        families: dict[str, Family] = {}
        for upstream, page in self._pages.items():
            for one in _readable(page):
                family = families.setdefault(
                    one.name, Family(one.name, one.documentation, one.type)
                )
                for sample in one.samples:
                    labels = {"upstream": upstream, **sample.labels}
                    family.add_sample(sample.name, labels, sample.value)
        yield from families.values()


def _readable(page: str) -> list[Family]:
    """Return what a page says; nothing, where that cannot be read."""
    try:
        return list(text_string_to_metric_families(page))
    except ValueError:
        return []


def _by_metric(values: Values) -> _ByMetric:
    by_metric: _ByMetric = defaultdict(list)
    for series, value in sorted(values.items()):
        by_metric[series.name].append((series, value))
    return by_metric


def _counter(metric: Metric, values: _ByMetric) -> CounterMetricFamily:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for series, value in values.get(metric.name, ()):
        family.add_metric(_label_values(series), value)
    return family


def _gauge(metric: Metric, values: _ByMetric) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for series, value in values.get(metric.name, ()):
        family.add_metric(_label_values(series), value)
    return family


def _histogram(metric: Metric, values: _ByMetric) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(repr, metric.buckets), "+Inf"]
    counts: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for series, value in values.get(f"{metric.name}_bucket", ()):
        *labels, bound = _label_values(series)
        counts[tuple(labels)][bound] = value
    sums = {
        tuple(_label_values(series)): total
        for series, total in values.get(f"{metric.name}_sum", ())
    }
    for label_values, in_bucket in counts.items():
        cumulative = accumulate(in_bucket.get(bound, 0) for bound in bounds)
        buckets = list(zip(bounds, cumulative, strict=True))
        family.add_metric(label_values, buckets, sums.get(label_values, 0))
    return family


def _label_values(series: Series) -> list[str]:
    return [value for _, value in series.labels]
