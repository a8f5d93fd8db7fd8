"""Expiry: how long an answer is kept, and whether one that was found may be served.

All times are arguments, in seconds since the Unix epoch. Callers only tighten: a directive can
make an entry stale that the class would serve, never the other way round; ``max-stale`` lets a
caller have an expired answer only as far as the class allows stale ones at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepwell.core.entry import Entry, SourceValue
from stepwell.core.outcome import Stale, StaleReason
from stepwell.policy.classes import RequestClass
from stepwell.policy.sources import CurrentSource, has_moved
from stepwell.wire.controls import Directives

MAX_CLOCK_SKEW_SECONDS = 60.0
"""An entry may be this far ahead of the clock (machines that share a store differ a little)
before its age counts as unknown."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """An entry may be served as it is."""

    age_seconds: float
    """Since it was made; never negative. The ``Age`` header, rounded down."""
    remaining_seconds: float
    """Until it expires, under the class as it is now; above 0."""


class Lifetime(NamedTuple):
    """When an entry stops being fresh, and when it stops being of any use."""

    expires_at: float
    keep_until: float


def expiry(request_class: RequestClass, directives: Directives, now: float) -> Lifetime:
    """Return the lifetime of an answer made at ``now``.

    The shorter of the class's and the caller's TTL counts. A caller's ``ttl`` also bounds the
    time an expired answer is kept for serving stale: no answer outlives what its caller allowed.
    """
    expires_at = now + max(0.0, min(request_class.ttl_seconds, directives.ttl_seconds))
    keep_until = min(expires_at + request_class.stale_seconds, now + directives.ttl_seconds)
    return Lifetime(expires_at, max(expires_at, keep_until))


def age_seconds(entry: Entry, now: float) -> float:
    """Return how long ago ``entry`` was made; 0 if it seems to come from the future."""
    return max(0.0, now - entry.created_at)


class Window(NamedTuple):
    """A stretch of time: ``since <= now < until``."""

    since: float
    until: float


def fresh_window(entry: Entry, directives: Directives, request_class: RequestClass) -> Window:
    """Return times at which `judge` finds ``entry`` fresh, for as long as no source moves.

    For the hot path, which then compares two numbers. At the end it is the stricter of the two.
    """
    expires_at = _expires_at(entry, request_class)
    too_old_at = entry.created_at + directives.max_age_seconds
    return Window(
        entry.created_at - MAX_CLOCK_SKEW_SECONDS,
        min(expires_at - directives.min_fresh_seconds, too_old_at),
    )


def judge(
    entry: Entry,
    now: float,
    directives: Directives,
    request_class: RequestClass,
    current_source: CurrentSource,
    given: Sequence[SourceValue] = (),
) -> Fresh | StaleReason:
    """Decide whether ``entry`` may be served, and if not, why.

    Reasons that forbid serving on any path come first, so `StaleReason.EXPIRED` alone can still
    be of use: clock, source, the caller's limits on age, then time. The entry obeys the class it
    is asked for under, not only the one it was filled under: a class with a shorter TTL, or one
    whose TTL was shortened since, finds it expired earlier.

    Args:
        entry: What a layer found.
        now: The time of the request.
        directives: What the caller allows.
        request_class: The class of the request.
        current_source: Values set for the request's namespace.
        given: Source values the request states.
    """
    if entry.created_at - now > MAX_CLOCK_SKEW_SECONDS:
        return StaleReason.CLOCK
    if has_moved(entry, request_class, given, current_source):
        return StaleReason.SOURCE_MOVED
    age = age_seconds(entry, now)
    remaining = _expires_at(entry, request_class) - now
    # Without min-fresh an entry that has nothing left is expired, not too old.
    if age > directives.max_age_seconds or remaining < directives.min_fresh_seconds > 0:
        return StaleReason.TOO_OLD
    if remaining <= 0:
        return StaleReason.EXPIRED
    return Fresh(age, remaining)


def may_serve_expired(
    stale: Stale, request_class: RequestClass, directives: Directives, now: float
) -> bool:
    """Return whether the caller's ``max-stale`` lets it have ``stale`` without a new answer."""
    allowed = min(request_class.stale_seconds, directives.max_stale_seconds)
    return _is_within(stale, request_class, allowed, now)


def may_serve_while_revalidating(stale: Stale, request_class: RequestClass, now: float) -> bool:
    """Return whether ``stale`` may be served while a new answer is fetched behind it."""
    return _is_within(stale, request_class, request_class.stale_while_revalidate_seconds, now)


def may_serve_on_error(stale: Stale, request_class: RequestClass, now: float) -> bool:
    """Return whether ``stale`` may be served because the upstream failed."""
    return _is_within(stale, request_class, request_class.stale_if_error_seconds, now)


def _is_within(stale: Stale, request_class: RequestClass, stale_seconds: float, now: float) -> bool:
    if stale.reason is not StaleReason.EXPIRED:
        return False
    expired_for = now - _expires_at(stale.entry, request_class)
    return expired_for < stale_seconds and now < stale.entry.keep_until


def _expires_at(entry: Entry, request_class: RequestClass) -> float:
    return min(entry.expires_at, entry.created_at + request_class.ttl_seconds)
