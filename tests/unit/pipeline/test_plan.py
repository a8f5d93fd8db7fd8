"""What is done next: a function of what was asked and found, and of nothing else."""

from dataclasses import replace

import pytest
from support.walk import make_question

from stepwell.core.names import LayerName, Tier
from stepwell.core.outcome import Bypass, Hit, Miss, Stale, StaleReason
from stepwell.pipeline.plan import (
    Forward,
    LookUp,
    Refuse,
    Serve,
    Step,
    first_step,
    next_step,
)
from stepwell.policy.classes import GENERAL, RequestClass
from stepwell.testing.entries import make_entry
from stepwell.wire.controls import Directives

NOW = 2_000.0
PATIENT = replace(
    GENERAL,
    name="patient",
    ttl_seconds=100,
    stale_while_revalidate_seconds=50,
    stale_if_error_seconds=100,
)
ON_ERROR_ONLY = replace(PATIENT, stale_while_revalidate_seconds=0)
EXPIRED_40_S_AGO = make_entry(created_at=NOW - 140, ttl_seconds=100, stale_seconds=100)
MISS = Miss(LayerName.EXACT)
NO_CACHE = Bypass("no-cache")


def stale(reason: StaleReason = StaleReason.EXPIRED) -> Stale:
    """Return an outcome for the entry that expired 40 seconds ago."""
    return Stale(EXPIRED_40_S_AGO, LayerName.EXACT, Tier.MEMORY, reason)


@pytest.mark.parametrize(
    ("directives", "bypass", "expected"),
    [
        (Directives(), None, LookUp()),
        (Directives(no_store=True), None, LookUp()),
        (Directives(only_if_cached=True), None, LookUp()),
        (Directives(ttl_seconds=0), None, LookUp()),
        (Directives(no_cache=True), None, Forward(NO_CACHE, fill=True, share=False)),
        (
            Directives(no_cache=True, no_store=True),
            None,
            Forward(NO_CACHE, fill=False, share=False),
        ),
        (
            Directives(no_cache=True, ttl_seconds=0),
            None,
            Forward(NO_CACHE, fill=False, share=False),
        ),
        (Directives(), "store", Forward(Bypass("store"), fill=False, share=False)),
        (Directives(no_cache=True), "store", Forward(Bypass("store"), fill=False, share=False)),
    ],
)
def test_first_step(directives: Directives, bypass: str | None, expected: Step | LookUp) -> None:
    """The layers are asked unless the request, or what it is, forbids it."""
    assert first_step(make_question(directives=directives, bypass=bypass)) == expected


@pytest.mark.parametrize(
    ("directives", "bypass"),
    [
        (Directives(only_if_cached=True), "store"),
        (Directives(only_if_cached=True, no_cache=True), None),
    ],
)
def test_only_if_cached_is_refused_where_the_cache_is_not_asked(
    directives: Directives, bypass: str | None
) -> None:
    """504 as RFC 9111 (5.2.1.7) says; nothing goes upstream."""
    step = first_step(make_question(directives=directives, bypass=bypass))
    assert isinstance(step, Refuse)
    assert (step.error.status, step.error.code) == (504, "only_if_cached")


def test_a_hit_is_served() -> None:
    """Whatever else was asked: a layer only says hit where the caller allows it."""
    hit = Hit(EXPIRED_40_S_AGO, LayerName.EXACT, Tier.MEMORY)
    for directives in (Directives(), Directives(only_if_cached=True), Directives(no_store=True)):
        assert next_step(make_question(directives=directives), hit, NOW) == Serve(hit)


@pytest.mark.parametrize(
    ("directives", "expected"),
    [
        (Directives(), Forward(MISS, fill=True, share=True)),
        (Directives(no_store=True), Forward(MISS, fill=False, share=False)),
        (Directives(ttl_seconds=0), Forward(MISS, fill=False, share=False)),
        (Directives(max_age_seconds=0), Forward(MISS, fill=True, share=True)),
    ],
)
def test_after_a_miss(directives: Directives, expected: Step) -> None:
    """The model server is asked; what may not be stored is not shared either."""
    assert next_step(make_question(directives=directives), MISS, NOW) == expected


@pytest.mark.parametrize(
    ("request_class", "directives", "expected"),
    [
        (PATIENT, Directives(), Serve(stale(), refresh=True)),
        # Nobody may have the new answer, so fetching one would be for nothing.
        (PATIENT, Directives(no_store=True), Serve(stale())),
        (PATIENT, Directives(only_if_cached=True), Serve(stale())),
        (PATIENT, Directives(max_stale_seconds=41), Serve(stale())),
        (
            ON_ERROR_ONLY,
            Directives(),
            Forward(stale(), fill=True, share=True, fallback=stale()),
        ),
        (ON_ERROR_ONLY, Directives(max_stale_seconds=41), Serve(stale())),
        (
            ON_ERROR_ONLY,
            Directives(max_stale_seconds=40),
            Forward(stale(), fill=True, share=True, fallback=stale()),
        ),
        # A class that allows nothing stale allows it on no path.
        (GENERAL, Directives(max_stale_seconds=1e9), Forward(stale(), fill=True, share=True)),
    ],
)
def test_after_an_expired_entry(
    request_class: RequestClass, directives: Directives, expected: Step
) -> None:
    """It is served, refreshed behind, or held against a failure, as class and caller allow."""
    if request_class is GENERAL:
        request_class = replace(GENERAL, ttl_seconds=100)
    question = make_question(request_class=request_class, directives=directives)
    assert next_step(question, stale(), NOW) == expected


@pytest.mark.parametrize(
    "reason", [StaleReason.SOURCE_MOVED, StaleReason.TOO_OLD, StaleReason.CLOCK]
)
def test_what_is_stale_for_another_reason_is_never_served(reason: StaleReason) -> None:
    """Not while revalidating, not on an error, not with max-stale."""
    question = make_question(
        request_class=PATIENT, directives=Directives(max_stale_seconds=float("inf"))
    )
    assert next_step(question, stale(reason), NOW) == Forward(stale(reason), fill=True, share=True)


@pytest.mark.parametrize("found", [MISS, stale(StaleReason.SOURCE_MOVED)])
def test_only_if_cached_without_an_answer_is_refused(found: Miss | Stale) -> None:
    """504; the model server is not asked."""
    question = make_question(directives=Directives(only_if_cached=True))
    step = next_step(question, found, NOW)
    assert isinstance(step, Refuse)
    assert (step.error.status, step.error.code) == (504, "only_if_cached")
