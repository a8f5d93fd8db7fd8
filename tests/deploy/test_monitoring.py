"""Dashboard and alerts: every query can be asked, of metrics that there are."""

import itertools
import json
import re
import shutil
import subprocess
from typing import Any

import promql_parser
import pytest
from meta.repository import fences
from support.deployment import DEPLOY, documents

from stepwell.core.events import Result
from stepwell.telemetry.catalogue import CATALOGUE, Kind

ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads(
    (DEPLOY / "grafana" / "dashboards" / "stepwell.json").read_text()
)
PANELS: list[Any] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OF_SCRAPES = frozenset({"instance", "job"})
"""Labels that Prometheus adds."""

needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool is not installed (apt-get install prometheus)"
)


def series() -> dict[str, frozenset[str]]:
    """Return the labels of every series there is, by name."""
    found = {"up": OF_SCRAPES}
    for metric in CATALOGUE:
        labels = OF_SCRAPES | {*metric.labels}
        if metric.kind is Kind.HISTOGRAM:
            found[f"{metric.name}_bucket"] = labels | {"le"}
            found |= {f"{metric.name}_count": labels, f"{metric.name}_sum": labels}
        else:
            found[metric.name] = labels
    return found


SERIES = series()


def queries() -> list[tuple[str, str]]:
    """Return all queries, and where they are."""
    panels = [
        (f"panel {panel['title']}", _filled_in(target["expr"]))
        for panel in PANELS
        for target in panel["targets"]
    ]
    (alerts,) = documents(ALERTS)[0]["groups"]
    rules = [(f"alert {rule['alert']}", rule["expr"]) for rule in alerts["rules"]]
    pages = [(fence.name, fence.text) for fence in fences("promql")]
    assert len(panels) > 30
    return [*panels, *rules, *pages]


def _filled_in(expression: str) -> str:
    """Return a query with a dashboard's variables put in, as Grafana does."""
    for variable, value in (("__rate_interval", "5m"), ("__range", "3h"), ("instance", ".*")):
        expression = expression.replace(f"${variable}", value)
    assert "$" not in expression
    return expression


def selected(query: str) -> list[promql_parser.VectorSelector]:
    """Return what a query selects. Raises if it is none."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(query), pre_visit=visit)
    return found


@pytest.mark.parametrize(("where", "query"), queries(), ids=[where for where, _ in queries()])
def test_metrics_and_labels_exist(where: str, query: str) -> None:
    """In the catalogue; an outcome that is asked for is one."""
    vectors = selected(query)
    assert vectors
    labels = frozenset[str]().union(*(SERIES[str(vector.name)] for vector in vectors))
    for vector in vectors:
        for matcher in vector.matchers.matchers:
            assert matcher.name in SERIES[str(vector.name)]
            if matcher.name == "outcome" and vector.name == "stepwell_requests_total":
                assert set(matcher.value.split("|")) <= {*Result}
    grouped = {name for names in re.findall(r"by \(([^)]*)\)", query) for name in names.split(",")}
    assert {name.strip() for name in grouped} <= labels


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_legends_use_labels_that_are_left(panel: Any) -> None:
    """A legend of a label that was summed away is empty."""
    for target in panel["targets"]:
        left = {
            name.strip()
            for names in re.findall(r"by \(([^)]*)\)", target["expr"])
            for name in names.split(",")
        }
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left


def test_the_dashboard_shows_every_metric() -> None:
    """None is counted for nothing."""
    shown = {
        re.sub(r"_(bucket|count|sum)$", "", str(vector.name))
        for panel in PANELS
        for target in panel["targets"]
        for vector in selected(_filled_in(target["expr"]))
    }
    assert shown == {metric.name for metric in CATALOGUE}


def test_panels_do_not_overlap() -> None:
    """Each has an id, a title and a place of its own."""
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in everything}) == len(everything)
    places = [panel["gridPos"] for panel in everything]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above


@needs_promtool
def test_prometheus_takes_its_settings() -> None:
    """And the rules that they name."""
    checked = _promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_promtool
def test_alerts_fire_when_they_should() -> None:
    """Each of them in a bad hour, none in a quiet one."""
    file = DEPLOY / "prometheus" / "alerts_test.yml"
    checked = _promtool("test", "rules", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (alerts,) = documents(ALERTS)[0]["groups"]
    assert {rule["alert"] for rule in alerts["rules"]} == {
        *re.findall(r'alertname="(\w+)"', file.read_text())
    }


def _promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
