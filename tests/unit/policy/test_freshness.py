"""Expiry and freshness, case by case."""

import math

import pytest

from stepwell.core.entry import SourceValue
from stepwell.core.names import LayerName, Tier
from stepwell.core.outcome import Stale, StaleReason
from stepwell.policy.classes import RequestClass
from stepwell.policy.freshness import (
    Fresh,
    Lifetime,
    age_seconds,
    expiry,
    judge,
    may_serve_expired,
    may_serve_on_error,
    may_serve_while_revalidating,
)
from stepwell.testing.entries import make_entry
from stepwell.wire.controls import Directives

EXACT = (LayerName.EXACT,)
HOUR = RequestClass("hour", EXACT, 3_600)
LENIENT = RequestClass(
    "lenient", EXACT, 100, stale_while_revalidate_seconds=20, stale_if_error_seconds=50
)
NEVER = RequestClass("never", EXACT, 0)
NO_DIRECTIVES = Directives()


def nothing_set(_name: str) -> None:
    """Say that no source has a value."""


@pytest.mark.parametrize(
    ("request_class", "ttl_seconds", "expected"),
    [
        (HOUR, math.inf, Lifetime(4_600, 4_600)),
        (HOUR, 60, Lifetime(1_060, 1_060)),
        (HOUR, 7_200, Lifetime(4_600, 4_600)),
        (HOUR, 0, Lifetime(1_000, 1_000)),
        (HOUR, -5, Lifetime(1_000, 1_000)),
        (NEVER, math.inf, Lifetime(1_000, 1_000)),
        (LENIENT, math.inf, Lifetime(1_100, 1_150)),
        # The caller's TTL bounds the time after expiry too.
        (LENIENT, 60, Lifetime(1_060, 1_060)),
        (LENIENT, 120, Lifetime(1_100, 1_120)),
    ],
)
def test_expiry(request_class: RequestClass, ttl_seconds: float, expected: Lifetime) -> None:
    """The shorter TTL counts, and no answer is kept longer than its caller allowed."""
    assert expiry(request_class, Directives(ttl_seconds=ttl_seconds), 1_000) == expected


@pytest.mark.parametrize(
    ("now", "directives", "expected"),
    [
        (1_000, NO_DIRECTIVES, Fresh(0, 3_600)),
        (4_599, NO_DIRECTIVES, Fresh(3_599, 1)),
        (4_600, NO_DIRECTIVES, StaleReason.EXPIRED),
        # A little ahead of the clock: age 0, never negative.
        (950, NO_DIRECTIVES, Fresh(0, 3_650)),
        (940, NO_DIRECTIVES, Fresh(0, 3_660)),
        (939, NO_DIRECTIVES, StaleReason.CLOCK),
        (1_010, Directives(max_age_seconds=10), Fresh(10, 3_590)),
        (1_011, Directives(max_age_seconds=10), StaleReason.TOO_OLD),
        (1_000, Directives(max_age_seconds=0), Fresh(0, 3_600)),
        (1_001, Directives(max_age_seconds=0), StaleReason.TOO_OLD),
        (4_000, Directives(min_fresh_seconds=600), Fresh(3_000, 600)),
        (4_001, Directives(min_fresh_seconds=600), StaleReason.TOO_OLD),
        # Too old on any path outweighs expired, which some path may still serve.
        (5_000, Directives(max_age_seconds=10), StaleReason.TOO_OLD),
        (5_000, Directives(min_fresh_seconds=1), StaleReason.TOO_OLD),
        # max-stale does not make an entry fresh.
        (5_000, Directives(max_stale_seconds=math.inf), StaleReason.EXPIRED),
        # no-cache is the pipeline's business: it does not look up at all.
        (1_010, Directives(ttl_seconds=1), Fresh(10, 3_590)),
    ],
)
def test_judge(now: float, directives: Directives, expected: Fresh | StaleReason) -> None:
    """An hour-old limit, made at 1,000, judged at different times for different callers."""
    assert judge(make_entry(), now, directives, HOUR, nothing_set) == expected


def test_class_asked_under_bounds_the_age() -> None:
    """An entry filled under a class with a longer TTL expires as the class asked under says."""
    minute = RequestClass("minute", EXACT, 60)
    assert judge(make_entry(), 1_059, NO_DIRECTIVES, minute, nothing_set) == Fresh(59, 1)
    assert judge(make_entry(), 1_060, NO_DIRECTIVES, minute, nothing_set) is StaleReason.EXPIRED
    assert judge(make_entry(), 1_000, NO_DIRECTIVES, NEVER, nothing_set) is StaleReason.EXPIRED


def test_class_with_a_longer_ttl_does_not_prolong() -> None:
    """An entry expires when it was said to, even if the class allows more now."""
    entry = make_entry(ttl_seconds=10)
    assert judge(entry, 1_010, NO_DIRECTIVES, HOUR, nothing_set) is StaleReason.EXPIRED


def test_moved_source_is_stale_at_once() -> None:
    """When the source moves on, a new entry is stale without waiting for its TTL."""
    entry = make_entry(sources=(SourceValue("doc", "v1"),))
    assert judge(entry, 1_001, NO_DIRECTIVES, HOUR, {"doc": "v1"}.get) == Fresh(1, 3_599)
    moved = judge(entry, 1_001, NO_DIRECTIVES, HOUR, {"doc": "v2"}.get)
    assert moved is StaleReason.SOURCE_MOVED


def test_source_stated_by_the_request_counts() -> None:
    """A request that states another value than the entry was made under does not get it."""
    entry = make_entry(sources=(SourceValue("doc", "v1"),))
    stated = (SourceValue("doc", "v2"),)
    reason = judge(entry, 1_001, NO_DIRECTIVES, HOUR, nothing_set, stated)
    assert reason is StaleReason.SOURCE_MOVED


def test_moved_source_outweighs_expired() -> None:
    """An expired entry whose source moved is of no use to anyone, and must not look as if."""
    entry = make_entry(sources=(SourceValue("doc", "v1"),))
    reason = judge(entry, 9_999, NO_DIRECTIVES, HOUR, {"doc": "v2"}.get)
    assert reason is StaleReason.SOURCE_MOVED


@pytest.mark.parametrize(("now", "age"), [(999, 0), (1_000, 0), (1_002.5, 2.5)])
def test_age_is_never_negative(now: float, age: float) -> None:
    """An entry from a clock that is ahead has age 0."""
    assert age_seconds(make_entry(), now) == age


def expired_at_1100(reason: StaleReason = StaleReason.EXPIRED) -> Stale:
    """Return an entry of the lenient class: made at 1,000, expired at 1,100, kept until 1,150."""
    entry = make_entry(ttl_seconds=100, stale_seconds=50)
    return Stale(entry, LayerName.EXACT, Tier.MEMORY, reason)


@pytest.mark.parametrize(
    ("now", "revalidating", "on_error"),
    [
        (1_100, True, True),
        (1_119, True, True),
        (1_120, False, True),
        (1_149, False, True),
        (1_150, False, False),
    ],
)
def test_stale_windows(now: float, *, revalidating: bool, on_error: bool) -> None:
    """An expired entry is of use while its class says so, and not a moment longer."""
    stale = expired_at_1100()
    assert may_serve_while_revalidating(stale, LENIENT, now) is revalidating
    assert may_serve_on_error(stale, LENIENT, now) is on_error


@pytest.mark.parametrize(
    ("now", "max_stale_seconds", "expected"),
    [
        (1_109, 10, True),
        (1_110, 10, False),
        (1_149, math.inf, True),
        # As far as the class allows, and no further.
        (1_150, math.inf, False),
        (1_101, 0, False),
    ],
)
def test_max_stale(now: float, max_stale_seconds: float, *, expected: bool) -> None:
    """A caller may accept an expired answer within what the class allows."""
    directives = Directives(max_stale_seconds=max_stale_seconds)
    assert may_serve_expired(expired_at_1100(), LENIENT, directives, now) is expected


@pytest.mark.parametrize("reason", [r for r in StaleReason if r is not StaleReason.EXPIRED])
def test_other_reasons_are_never_served(reason: StaleReason) -> None:
    """A moved source, an odd clock or the caller's own limit forbid every path."""
    stale = expired_at_1100(reason)
    anything = Directives(max_stale_seconds=math.inf)
    assert not may_serve_expired(stale, LENIENT, anything, 1_101)
    assert not may_serve_while_revalidating(stale, LENIENT, 1_101)
    assert not may_serve_on_error(stale, LENIENT, 1_101)


def test_class_that_allows_no_stale_answers_overrules_the_entry() -> None:
    """Where the class was made stricter since the entry was filled, the class counts."""
    strict = RequestClass("strict", EXACT, 100)
    stale = expired_at_1100()
    assert not may_serve_while_revalidating(stale, strict, 1_101)
    assert not may_serve_on_error(stale, strict, 1_101)
    anything = Directives(max_stale_seconds=math.inf)
    assert not may_serve_expired(stale, strict, anything, 1_101)


def test_entry_that_is_not_kept_is_not_served() -> None:
    """Where the caller's TTL cut the time an answer is kept, a lenient class does not add any."""
    entry = make_entry(ttl_seconds=100)
    stale = Stale(entry, LayerName.EXACT, Tier.MEMORY, StaleReason.EXPIRED)
    assert not may_serve_on_error(stale, LENIENT, 1_101)
