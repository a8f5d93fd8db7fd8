"""The metrics page is one that Prometheus takes."""

import shutil
import subprocess
from collections import Counter

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from stepwell.core.entry import Usage
from stepwell.core.events import Degraded, Event, Result, StageTimed, UpstreamAnswered
from stepwell.telemetry.catalogue import CATALOGUE, ENTRIES, Kind
from stepwell.telemetry.exposition import OPENMETRICS_TEXT, PROMETHEUS_TEXT, render_metrics
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.meters import Meters
from stepwell.telemetry.series import Reading
from stepwell.testing.events import make_request_ended

AWKWARD_MODEL = 'm"\\\n模型 {x="y"}'


@pytest.fixture
def reading() -> Reading:
    """Something of every kind."""
    meters = Meters()
    events: list[Event] = [
        *(make_request_ended(r, model=AWKWARD_MODEL, stream=True) for r in [*Result] * 3),
        StageTimed("parse", 0.5e-06),
        StageTimed("parse", 0.002),
        StageTimed("parse", 99.0),
        UpstreamAnswered("local", AWKWARD_MODEL, 0.4, 0.2, Usage(1000, 100)),
        Degraded("store.disk", "no space left"),
    ]
    for event in events:
        meters.emit(event)
    gauges = Gauges("1.2.3")
    gauges.watch(ENTRIES, lambda: 5, "memory")
    levels = gauges.read()
    return Reading(meters.values(), levels.own | levels.shared)


def test_text_says_what_was_counted(reading: Reading) -> None:
    """Prometheus's own reader finds each value under its name and labels."""
    page = render_metrics(reading)
    assert page.content_type == PROMETHEUS_TEXT
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse_text(page.body.decode())
        for sample in family.samples
    }
    hits = (("class", "general"), ("layer", "exact"), ("outcome", "hit"))
    assert values["stepwell_requests_total", *hits] == 3
    spent = (("kind", "prompt"), ("model", AWKWARD_MODEL))
    assert values["stepwell_spent_tokens_total", *spent] == 1000
    assert values["stepwell_entries", ("tier", "memory")] == 5
    assert values["stepwell_failures_total", ("component", "store.disk")] == 1


def test_histograms_are_cumulative(reading: Reading) -> None:
    """Buckets do not fall, end in +Inf, and +Inf is the count."""
    samples = [
        sample
        for family in parse_text(render_metrics(reading).body.decode())
        if family.name == "stepwell_stage_seconds"
        for sample in family.samples
    ]
    buckets = [(s.labels["le"], s.value) for s in samples if s.name.endswith("_bucket")]
    assert [value for _, value in buckets] == [1.0] * 10 + [2.0] * 7 + [3.0]
    assert buckets[10][0] == "0.0025"
    assert buckets[-1][0] == "+Inf"
    rest = {s.name: s.value for s in samples if not s.name.endswith("_bucket")}
    assert rest == {
        "stepwell_stage_seconds_count": 3,
        "stepwell_stage_seconds_sum": pytest.approx(99.0020005),
    }


def test_every_metric_is_described_once(reading: Reading) -> None:
    """Each metric of the catalogue has its help and type, even before it has a series."""
    for shown in (reading, Reading({}, {})):
        lines = render_metrics(shown).body.decode().splitlines()
        described = [line.split()[2] for line in lines if line.startswith("# HELP")]
        typed = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
        assert described == [metric.name for metric in CATALOGUE]
        assert typed == {metric.name: metric.kind.value for metric in CATALOGUE}


def test_no_series_twice(reading: Reading) -> None:
    """A series is on the page once, or Prometheus would refuse the whole page."""
    lines = render_metrics(reading).body.decode().splitlines()
    series = Counter(line.rpartition(" ")[0] for line in lines if not line.startswith("#"))
    assert series
    assert [name for name, times in series.items() if times > 1] == []


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", PROMETHEUS_TEXT),
        ("*/*", PROMETHEUS_TEXT),
        ("text/plain;version=junk", PROMETHEUS_TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3", OPENMETRICS_TEXT),
    ],
)
def test_format_by_accept(reading: Reading, accept: str, expected: str) -> None:
    """A client gets OpenMetrics if it names it, and the text format otherwise."""
    assert render_metrics(reading, accept).content_type == expected


def test_openmetrics_is_valid(reading: Reading) -> None:
    """The strict OpenMetrics reader takes the page and finds the same metrics."""
    body = render_metrics(reading, OPENMETRICS_TEXT).body.decode()
    assert body.endswith("# EOF\n")
    parsed = parse_openmetrics(body)  # type: ignore[no-untyped-call]
    families = {family.name: family.type for family in parsed}
    assert families == {
        metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name: (
            metric.kind.value
        )
        for metric in CATALOGUE
    }


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_no_complaint(reading: Reading) -> None:
    """Prometheus's linter finds nothing to say."""
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=render_metrics(reading).body,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


ENGINE_PAGE = """\
# HELP stepwell_kv_bytes Of KV blocks on a shelf.
# TYPE stepwell_kv_bytes gauge
stepwell_kv_bytes{shelf="exact"} 4096.0
# HELP stepwell_kv_lost_blocks_total Damaged or gone.
# TYPE stepwell_kv_lost_blocks_total counter
stepwell_kv_lost_blocks_total 3.0
"""


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_engines_that_run_here_are_shown_beside(reading: Reading, accept: str) -> None:
    """Each under the name of its upstream; one whose page cannot be read is left out."""
    pages = {"own": ENGINE_PAGE, "other": ENGINE_PAGE, "odd": "<html>{{{"}
    page = render_metrics(reading, accept, pages)
    parse = parse_openmetrics if accept else parse_text
    samples = {
        (sample.name, sample.labels.get("upstream")): sample
        for family in parse(page.body.decode())
        for sample in family.samples
        if sample.name.startswith("stepwell_kv")
    }
    assert {upstream for _, upstream in samples} == {"own", "other"}
    assert samples["stepwell_kv_lost_blocks_total", "own"].value == 3
    assert samples["stepwell_kv_bytes", "other"].labels["shelf"] == "exact"
    assert samples["stepwell_kv_bytes", "other"].value == 4096
