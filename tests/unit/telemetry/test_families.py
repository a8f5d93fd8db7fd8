"""Counters, histograms and the bounds of their labels."""

import pytest

from stepwell.telemetry.catalogue import OTHER, Kind, Metric
from stepwell.telemetry.families import CounterFamily, HistogramFamily, LabelBounds
from stepwell.telemetry.series import Series, add_up, increase

SECONDS = Metric("test_seconds", Kind.HISTOGRAM, "A test.", ("stage",), (0.1, 1.0))
THINGS = Metric("test_things_total", Kind.COUNTER, "A test.", ("kind",))


def test_bucket_bounds_are_inclusive() -> None:
    """An observation counts in the first bucket whose bound it does not exceed, as `le` says."""
    family = HistogramFamily(SECONDS, LabelBounds())
    for value in (0.05, 0.1, 0.11, 1.0, 7.0):
        family.at("parse").observe(value)
    values: dict[Series, float] = {}
    family.read_into(values)
    assert {series.labels[-1][1]: value for series, value in values.items()} == {
        "parse": pytest.approx(8.26),
        "0.1": 2,
        "1.0": 2,
        "+Inf": 1,
    }


def test_same_labels_same_counter() -> None:
    """What is counted under the same label values adds up in one series."""
    family = CounterFamily(THINGS, LabelBounds())
    family.at("a").value += 1
    family.at("a").value += 2
    family.at("b").value += 4
    values: dict[Series, float] = {}
    family.read_into(values)
    assert values == {
        Series("test_things_total", (("kind", "a"),)): 3,
        Series("test_things_total", (("kind", "b"),)): 4,
    }


def test_label_values_are_bounded() -> None:
    """Values beyond the bound are one; those that were there before keep their names."""
    bounds = LabelBounds(max_values=2)
    seen = [bounds.admit("model", name) for name in ("a", "b", "c", "d", "a")]
    assert seen == ["a", "b", OTHER, OTHER, "a"]
    assert bounds.admit("class", "c") == "c"


@pytest.mark.parametrize("value", ["x" * 129, "lone \ud800 surrogate"])
def test_unusable_values_are_other(value: str) -> None:
    """A value that would bloat a page, or could not be written, does not become a label."""
    assert LabelBounds().admit("model", value) == OTHER


def test_increase_and_add_up_are_inverse() -> None:
    """What has grown, added to what was before, is what is now."""
    before = {Series("a"): 1.0, Series("b"): 2.0}
    now = {Series("a"): 1.0, Series("b"): 5.0, Series("c"): 7.0}
    assert increase(now, before) == {Series("b"): 3.0, Series("c"): 7.0}
    assert add_up(before, increase(now, before)) == now
