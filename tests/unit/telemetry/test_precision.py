"""The live precision, from the sums over all workers to the page."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stepwell.core.events import HitJudged, HitNotJudged, HitWithheld
from stepwell.policy.intervals import wilson
from stepwell.telemetry.exposition import render_metrics
from stepwell.telemetry.meters import Meters
from stepwell.telemetry.precision import JudgedLine, judged_lines, live_precision
from stepwell.telemetry.series import Reading, add_up


def counted(right: int, wrong: int, by: str = "sample", request_class: str = "faq") -> Meters:
    meters = Meters()
    for verdict, count in (("right", right), ("wrong", wrong)):
        for _ in range(count):
            meters.emit(HitJudged(verdict, by, request_class))
    return meters


def test_an_estimate_and_its_interval() -> None:
    """Of all counts together, for each class and reason apart, as the page shows them."""
    both = add_up(counted(30, 1).values(), counted(9, 0).values())
    shadow = counted(0, 2, by="shadow", request_class="general").values()
    gauges = live_precision(add_up(both, shadow))
    page = render_metrics(Reading({}, gauges)).body.decode()
    values = {
        (sample.labels["class"], sample.labels["by"], sample.labels["bound"]): sample.value
        for family in text_string_to_metric_families(page)
        if family.name == "stepwell_semantic_precision"
        for sample in family.samples
    }
    of_faq, of_general = wilson(39, 40), wilson(0, 2)
    assert values == {
        ("faq", "sample", "lower"): pytest.approx(of_faq.low),
        ("faq", "sample", "estimate"): pytest.approx(39 / 40),
        ("faq", "sample", "upper"): pytest.approx(of_faq.high),
        ("general", "shadow", "lower"): 0.0,
        ("general", "shadow", "estimate"): 0.0,
        ("general", "shadow", "upper"): pytest.approx(of_general.high),
    }


def test_nothing_judged_at_random_has_no_precision() -> None:
    """What people say is no random sample; what was not judged says nothing."""
    meters = counted(3, 3, by="person")
    meters.emit(HitNotJudged("unsure", "sample", "faq"))
    meters.emit(HitWithheld("faq"))
    assert live_precision(meters.values()) == {}
    assert live_precision({}) == {}


def test_a_line_for_each_class_and_way() -> None:
    """What shadow mode withheld stands with what it judged; people get no precision."""
    meters = counted(3, 1, by="shadow")
    for _ in range(6):
        meters.emit(HitWithheld("faq"))
    for why in ("unsure", "failed"):
        meters.emit(HitNotJudged(why, "shadow", "faq"))
    meters.emit(HitWithheld("general"))
    said = counted(0, 2, by="person").values()
    interval = wilson(3, 4)
    assert judged_lines(add_up(meters.values(), said)) == (
        JudgedLine("faq", "person", None, 0, 2, 0, None, None, None),
        JudgedLine("faq", "shadow", 6, 3, 1, 2, 0.75, interval.low, interval.high),
        JudgedLine("general", "shadow", 1, 0, 0, 0, None, None, None),
    )


def test_no_line_for_what_was_taken_back() -> None:
    """Counts that came to nothing say nothing."""
    values = dict.fromkeys(counted(3, 1).values(), 0.0)
    assert values
    assert judged_lines(values) == ()
