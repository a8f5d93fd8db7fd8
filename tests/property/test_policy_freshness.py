"""Laws of freshness that hold for every entry, class, caller and clock."""

import math
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.entry import Entry, SourceValue
from stepwell.core.names import LayerName, Tier
from stepwell.core.outcome import Stale, StaleReason
from stepwell.policy.classes import RequestClass
from stepwell.policy.freshness import (
    Fresh,
    expiry,
    fresh_window,
    judge,
    may_serve_expired,
    may_serve_on_error,
    may_serve_while_revalidating,
)
from stepwell.policy.sources import stamp
from stepwell.testing.entries import make_entry
from stepwell.wire.controls import Directives

# Whole seconds in a small range, so that boundaries are met often.
SECONDS = st.integers(0, 300)
LIMITS = st.one_of(st.integers(0, 300), st.just(math.inf))
NAMES = st.sampled_from(["commit", "doc", "last_updated"])
VALUES = st.sampled_from(["", "v1", "v2"])
CURRENT = st.dictionaries(NAMES, VALUES)
SOURCES = st.dictionaries(NAMES, VALUES).map(
    lambda values: tuple(SourceValue(name, value) for name, value in sorted(values.items()))
)
CLASSES = st.builds(
    RequestClass,
    name=st.just("own"),
    layers=st.just((LayerName.EXACT,)),
    ttl_seconds=st.integers(1, 300),
    stale_while_revalidate_seconds=SECONDS,
    stale_if_error_seconds=SECONDS,
    sources=st.lists(NAMES, unique=True).map(tuple),
)
DIRECTIVES = st.builds(
    Directives,
    max_age_seconds=LIMITS,
    min_fresh_seconds=SECONDS,
    max_stale_seconds=LIMITS,
    ttl_seconds=LIMITS,
)
ENTRIES = st.builds(
    make_entry,
    created_at=st.integers(900, 1_100),
    ttl_seconds=SECONDS,
    stale_seconds=SECONDS,
    sources=SOURCES,
)
NOW = st.integers(800, 1_700)


def tightened(directives: Directives, other: Directives) -> Directives:
    """Return the stricter of both, value by value."""
    return replace(
        directives,
        max_age_seconds=min(directives.max_age_seconds, other.max_age_seconds),
        min_fresh_seconds=max(directives.min_fresh_seconds, other.min_fresh_seconds),
        max_stale_seconds=min(directives.max_stale_seconds, other.max_stale_seconds),
        ttl_seconds=min(directives.ttl_seconds, other.ttl_seconds),
    )


def paths(
    entry: Entry,
    now: float,
    directives: Directives,
    request_class: RequestClass,
    current: Mapping[str, str],
    stated: tuple[SourceValue, ...],
) -> set[str]:
    """Return every path by which the entry could reach the caller."""
    verdict = judge(entry, now, directives, request_class, current.get, stated)
    if isinstance(verdict, Fresh):
        return {"fresh", "expired", "revalidating", "error"}
    stale = Stale(entry, LayerName.EXACT, Tier.MEMORY, verdict)
    answers = {
        "expired": may_serve_expired(stale, request_class, directives, now),
        "revalidating": may_serve_while_revalidating(stale, request_class, now),
        "error": may_serve_on_error(stale, request_class, now),
    }
    return {path for path, may in answers.items() if may}


@given(ENTRIES, NOW, DIRECTIVES, DIRECTIVES, CLASSES, CURRENT, SOURCES)
def test_callers_only_tighten(
    entry: Entry,
    now: float,
    directives: Directives,
    other: Directives,
    request_class: RequestClass,
    current: dict[str, str],
    stated: tuple[SourceValue, ...],
) -> None:
    """Tightening any directive opens no path that was closed."""
    stricter = tightened(directives, other)
    before = paths(entry, now, directives, request_class, current, stated)
    assert paths(entry, now, stricter, request_class, current, stated) <= before


@given(ENTRIES, NOW, DIRECTIVES, CLASSES, CURRENT, SOURCES, NAMES)
def test_moved_source_is_never_served(
    entry: Entry,
    now: float,
    directives: Directives,
    request_class: RequestClass,
    current: dict[str, str],
    stated: tuple[SourceValue, ...],
    name: str,
) -> None:
    """Once a source of an entry has another value, no path leads to the entry."""
    entry = replace(entry, sources=(SourceValue(name, "v1"),))
    moved = current | {name: "v2"}
    assert paths(entry, now, directives, request_class, moved, stated) == set()


@given(ENTRIES, NOW, DIRECTIVES, CLASSES, CURRENT, SOURCES)
def test_nothing_is_served_past_its_time(
    entry: Entry,
    now: float,
    directives: Directives,
    request_class: RequestClass,
    current: dict[str, str],
    stated: tuple[SourceValue, ...],
) -> None:
    """Fresh means before both ends; any path means before the last moment and within max-age."""
    open_paths = paths(entry, now, directives, request_class, current, stated)
    if "fresh" in open_paths:
        assert now < entry.expires_at
        assert now - entry.created_at < request_class.ttl_seconds
    if open_paths:
        assert now < entry.keep_until
        assert now - entry.created_at <= directives.max_age_seconds


@given(ENTRIES, NOW, DIRECTIVES, CLASSES, CURRENT, SOURCES)
def test_fresh_says_how_long(
    entry: Entry,
    now: float,
    directives: Directives,
    request_class: RequestClass,
    current: dict[str, str],
    stated: tuple[SourceValue, ...],
) -> None:
    """The age of a fresh entry is never negative, and it has time left, as much as asked for."""
    verdict = judge(entry, now, directives, request_class, current.get, stated)
    if isinstance(verdict, Fresh):
        assert verdict.age_seconds >= 0
        assert verdict.remaining_seconds > 0
        assert verdict.remaining_seconds >= directives.min_fresh_seconds


@given(NOW, DIRECTIVES, CLASSES)
def test_expiry_is_in_order_and_in_bounds(
    now: float, directives: Directives, request_class: RequestClass
) -> None:
    """An answer expires before it is dropped; neither outlives the class or the caller."""
    expires_at, keep_until = expiry(request_class, directives, now)
    assert now <= expires_at <= keep_until
    assert expires_at - now <= request_class.ttl_seconds
    assert keep_until - now <= directives.ttl_seconds
    assert keep_until - expires_at <= request_class.stale_seconds


@given(CLASSES, CURRENT, SOURCES)
def test_answer_made_now_is_fresh_unless_the_sources_disagree(
    request_class: RequestClass, current: dict[str, str], stated: tuple[SourceValue, ...]
) -> None:
    """What a request fills it can be served, if what it states is what was set."""
    entry = make_entry(sources=stamp(request_class, stated, current.get))
    verdict = judge(entry, 1_000, Directives(), request_class, current.get, stated)
    disagree = any(s.value and current.get(s.name) not in {None, "", s.value} for s in stated)
    if disagree:
        assert verdict is StaleReason.SOURCE_MOVED
    else:
        assert isinstance(verdict, Fresh)


@given(entry=ENTRIES, now=NOW, directives=DIRECTIVES, request_class=CLASSES)
def test_inside_its_window_an_entry_is_fresh(
    entry: Entry, now: float, directives: Directives, request_class: RequestClass
) -> None:
    """The short way's two comparisons never serve what the judge would not, and miss nothing
    but the last instant.
    """
    sourceless = replace(request_class, sources=())
    entry = replace(entry, sources=())
    window = fresh_window(entry, directives, sourceless)
    fresh = isinstance(judge(entry, now, directives, sourceless, lambda _: None), Fresh)
    inside = window.since <= now < window.until
    assert fresh or not inside
    assert inside or not fresh or now == window.until
