"""Every event is counted where the catalogue says."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from stepwell.core.entry import Usage
from stepwell.core.events import (
    CachedTokensCompared,
    Degraded,
    Event,
    Evicted,
    FillRefused,
    LeaderLost,
    Placed,
    Result,
    StageTimed,
    Stored,
    UpstreamAnswered,
    UpstreamFailed,
)
from stepwell.core.names import Tier
from stepwell.telemetry.families import LabelBounds
from stepwell.telemetry.meters import Meters
from stepwell.telemetry.prices import ModelPrice, Prices
from stepwell.telemetry.series import Series
from stepwell.testing.events import make_request_ended

FORETOLD = "stepwell_prefix_foretold_tokens_total"

ANSWERED = UpstreamAnswered("local", "m", 0.4, 0.2, Usage(1000, 100))


def counted(events: Iterable[Event], prices: Prices | None = None) -> dict[str, float]:
    meters = Meters(prices)
    for event in events:
        meters.emit(event)
    return {written(series): value for series, value in meters.values().items()}


def written(series: Series) -> str:
    return series.name + "".join(f" {label}={value}" for label, value in series.labels)


def test_a_hit() -> None:
    """A hit counts once as a request, and with what it saved, by layer, class and model."""
    assert counted([make_request_ended(model="m"), make_request_ended(model="m")]) == {
        "stepwell_requests_total outcome=hit layer=exact class=general": 2,
        "stepwell_request_seconds_sum outcome=hit": 0.00006,
        "stepwell_request_seconds_bucket outcome=hit le=5e-05": 2,
        "stepwell_saved_tokens_total kind=prompt layer=exact model=m": 14,
        "stepwell_saved_tokens_total kind=completion layer=exact model=m": 22,
        "stepwell_saved_seconds_total layer=exact class=general": 1.0,
    }


@pytest.mark.parametrize("result", Result)
def test_every_result_counts_once(result: Result) -> None:
    """A request counts once whatever it came to; only answers without an own call save."""
    values = counted([make_request_ended(result)])
    assert values[f"stepwell_requests_total outcome={result} layer=exact class=general"] == 1
    saves = any(name.startswith("stepwell_saved") for name in values)
    assert saves == (result in {Result.HIT, Result.STALE, Result.COLLAPSED})


def test_first_bytes_are_of_streams() -> None:
    """The first byte is timed where it differs from the last: in streams."""
    values = counted([make_request_ended(stream=True, seconds=0.3), make_request_ended()])
    assert values["stepwell_first_byte_seconds_bucket outcome=hit le=0.5"] == 1
    assert values["stepwell_first_byte_seconds_sum outcome=hit"] == 0.3


def test_reading_changes_nothing() -> None:
    """Counts go on from where they were, however often they are read."""
    meters = Meters()
    meters.emit(make_request_ended())
    assert meters.values() == meters.values()
    meters.emit(make_request_ended())
    series = Series(
        "stepwell_requests_total", (("outcome", "hit"), ("layer", "exact"), ("class", "general"))
    )
    assert meters.values()[series] == 2


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            StageTimed("parse", 3e-06),
            {
                "stepwell_stage_seconds_sum stage=parse": 3e-06,
                "stepwell_stage_seconds_bucket stage=parse le=5e-06": 1,
            },
        ),
        (
            Stored("faq", 2000),
            {"stepwell_stored_total class=faq": 1, "stepwell_stored_bytes_total class=faq": 2000},
        ),
        (FillRefused("empty", "faq"), {"stepwell_fill_refused_total gate=empty class=faq": 1}),
        (
            Evicted(Tier.DISK, "capacity", 3, 900),
            {
                "stepwell_evictions_total tier=disk reason=capacity": 3,
                "stepwell_evicted_bytes_total tier=disk reason=capacity": 900,
            },
        ),
        (
            Placed("vllm", "a:1", "held"),
            {"stepwell_replica_requests_total upstream=vllm replica=a:1 why=held": 1},
        ),
        (
            CachedTokensCompared("vllm", "a:1", 100, 64, 110),
            {
                f"{FORETOLD} upstream=vllm replica=a:1 kind={kind}": tokens
                for kind, tokens in {
                    "prompt": 100,
                    "foretold": 64,
                    "cached": 100,
                    "met": 64,
                }.items()
            },
        ),
        (LeaderLost(midway=True), {"stepwell_leaders_lost_total when=midway": 1}),
        (LeaderLost(midway=False), {"stepwell_leaders_lost_total when=before": 1}),
        (
            Degraded("store.disk", "no space left"),
            {"stepwell_failures_total component=store.disk": 1},
        ),
        (
            UpstreamFailed("local", "timeout"),
            {"stepwell_upstream_errors_total upstream=local kind=timeout": 1},
        ),
        (
            ANSWERED,
            {
                "stepwell_upstream_seconds_sum upstream=local": 0.4,
                "stepwell_upstream_seconds_bucket upstream=local le=0.5": 1,
                "stepwell_upstream_first_byte_seconds_sum upstream=local": 0.2,
                "stepwell_upstream_first_byte_seconds_bucket upstream=local le=0.25": 1,
                "stepwell_spent_tokens_total kind=prompt model=m": 1000,
                "stepwell_spent_tokens_total kind=completion model=m": 100,
                "stepwell_prefix_tokens_total kind=unsaid upstream=local": 1000,
            },
        ),
        (
            UpstreamAnswered("local", "m", 0.4, 0.2, Usage(1000, 0, 900)),
            {
                "stepwell_upstream_seconds_sum upstream=local": 0.4,
                "stepwell_upstream_seconds_bucket upstream=local le=0.5": 1,
                "stepwell_upstream_first_byte_seconds_sum upstream=local": 0.2,
                "stepwell_upstream_first_byte_seconds_bucket upstream=local le=0.25": 1,
                "stepwell_spent_tokens_total kind=prompt model=m": 1000,
                "stepwell_prefix_tokens_total kind=cached upstream=local": 900,
                "stepwell_prefix_tokens_total kind=computed upstream=local": 100,
            },
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_events(event: Event, expected: dict[str, float]) -> None:
    """Each kind of event is counted in its own metrics and nowhere else."""
    assert counted([event]) == expected


def test_money() -> None:
    """Saved and spent tokens have their price; tokens without one are said to have none."""
    prices = Prices("EUR", {"m": ModelPrice(2.0, 10.0)})
    events: list[Event] = [
        make_request_ended(model="m"),
        make_request_ended(model="unknown"),
        ANSWERED,
        UpstreamAnswered("local", "unknown", 0.4, 0.2, Usage(5, 6)),
    ]
    values = counted(events, prices)
    money = {name: value for name, value in values.items() if "money" in name or "priced" in name}
    assert money == {
        "stepwell_saved_money_total currency=EUR layer=exact": pytest.approx(124e-06),
        "stepwell_spent_money_total currency=EUR": pytest.approx(0.003),
        "stepwell_unpriced_tokens_total account=saved": 18,
        "stepwell_unpriced_tokens_total account=spent": 11,
    }


def test_what_was_cached_cost_less_and_saves_less() -> None:
    """A hit saves what its answer cost when it was made, cached tokens at their own price."""
    prices = Prices("EUR", {"m": ModelPrice(1_000_000, 0, 100_000)})
    ended = replace(make_request_ended(model="m"), usage=Usage(10, 0, 8))
    values = counted([ended, ended, UpstreamAnswered("u", "m", 0, 0, Usage(10, 0, 8))], prices)
    saved = values["stepwell_saved_money_total currency=EUR layer=exact"]
    assert saved == pytest.approx(5.6)
    assert values["stepwell_spent_money_total currency=EUR"] == pytest.approx(2.8)


def test_any_number_of_model_names() -> None:
    """Names that callers invent grow neither the page nor memory; their tokens keep their price."""
    prices = Prices("EUR", {"dear-*": ModelPrice(1_000_000, 0), "*": ModelPrice(0, 0)})
    meters = Meters(prices, LabelBounds(max_values=3))
    for number in range(100):
        meters.emit(make_request_ended(model=f"dear-{number}"))
        meters.emit(make_request_ended(model=f"cheap-{number}"))
    values = {written(series): value for series, value in meters.values().items()}
    requests = "stepwell_requests_total outcome=hit layer=exact class=general"
    tokens = "stepwell_saved_tokens_total kind=prompt layer=exact model="
    assert values[requests] == 200
    assert {name: value for name, value in values.items() if name.startswith(tokens)} == {
        f"{tokens}dear-0": 7,
        f"{tokens}cheap-0": 7,
        f"{tokens}dear-1": 7,
        f"{tokens}other": 7 * 197,
    }
    assert values["stepwell_saved_money_total currency=EUR layer=exact"] == 700
    assert len(meters._tallies) + len(meters._others) == 5
