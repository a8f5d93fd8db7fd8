"""Laws of the plan: what no request, entry or class can bring about."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.walk import make_question

from stepwell.core.names import LayerName, Tier
from stepwell.core.outcome import Hit, Miss, Stale, StaleReason
from stepwell.pipeline.plan import Forward, LookUp, Serve, first_step, next_step
from stepwell.pipeline.question import Question
from stepwell.policy.classes import GENERAL
from stepwell.testing.entries import make_entry
from stepwell.wire.controls import Directives

seconds = st.sampled_from([0.0, 10.0, 100.0, float("inf")])
finite = st.sampled_from([0.0, 10.0, 100.0])
directives = st.builds(
    Directives,
    no_cache=st.booleans(),
    no_store=st.booleans(),
    only_if_cached=st.booleans(),
    max_age_seconds=seconds,
    min_fresh_seconds=seconds,
    max_stale_seconds=seconds,
    ttl_seconds=seconds,
)
classes = st.builds(
    lambda swr, sie: replace(
        GENERAL,
        ttl_seconds=100,
        stale_while_revalidate_seconds=swr,
        stale_if_error_seconds=sie,
    ),
    finite,
    finite,
)
entries = st.builds(
    lambda age, stale_seconds: make_entry(
        created_at=2_000.0 - age, ttl_seconds=100, stale_seconds=stale_seconds
    ),
    st.sampled_from([0.0, 99.0, 100.0, 105.0, 150.0, 500.0]),
    finite,
)
outcomes = st.one_of(
    st.builds(Hit, entries, st.just(LayerName.EXACT), st.just(Tier.MEMORY)),
    st.builds(
        Stale, entries, st.just(LayerName.EXACT), st.just(Tier.MEMORY), st.sampled_from(StaleReason)
    ),
    st.just(Miss(LayerName.EXACT)),
)
questions = st.builds(
    lambda said, request_class, bypass: make_question(
        directives=said, request_class=request_class, bypass=bypass
    ),
    directives,
    classes,
    st.sampled_from([None, "store"]),
)


@given(questions, outcomes)
def test_what_must_not_be_stored_is_neither_filled_nor_shared(
    question: Question, outcome: Hit | Stale | Miss
) -> None:
    """On no path: not first, not after a look-up, not behind a stale answer."""
    first = first_step(question)
    step = next_step(question, outcome, 2_000.0) if isinstance(first, LookUp) else first
    said = question.directives
    forbidden = said.no_store or said.ttl_seconds <= 0 or question.bypass is not None
    if isinstance(step, Forward):
        assert not (step.fill and forbidden)
        assert not (step.share and not step.fill)
    if isinstance(step, Serve):
        assert not (step.refresh and forbidden)


@given(questions, outcomes)
def test_only_if_cached_never_goes_upstream(
    question: Question, outcome: Hit | Stale | Miss
) -> None:
    """Neither for an answer, nor behind one."""
    if not question.directives.only_if_cached:
        return
    first = first_step(question)
    step = next_step(question, outcome, 2_000.0) if isinstance(first, LookUp) else first
    assert not isinstance(step, Forward)
    assert not (isinstance(step, Serve) and step.refresh)


@given(questions, outcomes)
def test_only_what_has_merely_expired_is_ever_served_stale(
    question: Question, outcome: Hit | Stale | Miss
) -> None:
    """And not past the moment it is kept until."""
    step = next_step(question, outcome, 2_000.0)
    stale = step.fallback if isinstance(step, Forward) else None
    if isinstance(step, Serve) and isinstance(step.outcome, Stale):
        stale = step.outcome
    if stale is not None:
        assert stale.reason is StaleReason.EXPIRED
        assert stale.entry.keep_until > 2_000.0
