"""The reference page of all metrics, made from the catalogue."""

from stepwell.telemetry.catalogue import CATALOGUE, MAX_LABEL_VALUES, OTHER, Metric

_HEAD = f"""\
<!-- Generated from src/stepwell/telemetry/catalogue.py; do not edit. -->

# Metrics

`GET /metrics` answers in Prometheus's text format, or in OpenMetrics for clients that ask for it.
Whichever worker process answers, it shows the sum over all workers of the server; what other
workers counted in the last second may be missing. Counters start at 0 with the server. The sums
over all runs are in the savings ledger: `stepwell stats`.

A label has at most {MAX_LABEL_VALUES} values in each worker; what comes later is counted under
`{OTHER}`.

| metric | kind | labels | says |
|---|---|---|---|
"""


_QUERIES = """
## Queries

Share of requests that the cache was asked about and answered:

```promql
sum(rate(stepwell_requests_total{outcome=~"hit|stale|collapsed"}[5m]))
  / sum(rate(stepwell_requests_total{outcome=~"hit|stale|collapsed|miss|error"}[5m]))
```

The time within which 99 % of hits are answered:

```promql
histogram_quantile(0.99, sum by (le) (rate(stepwell_request_seconds_bucket{outcome="hit"}[5m])))
```

An alert for a cache that does less than it should:

```promql
sum by (component) (increase(stepwell_failures_total[5m])) > 0
```
"""


def render_reference() -> str:
    """Return the page in Markdown."""
    histograms = (metric for metric in CATALOGUE if metric.buckets)
    return (
        _HEAD
        + "".join(map(_row, CATALOGUE))
        + "\n## Buckets\n\nUpper bounds in seconds.\n\n"
        + "".join(map(_buckets, histograms))
        + _QUERIES
    )


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |\n"


def _buckets(metric: Metric) -> str:
    bounds = ", ".join(f"{bound:g}" for bound in metric.buckets)
    return f"- `{metric.name}`: {bounds}\n"
