"""From a reply to an entry: everything an answer was made under goes with it."""

from dataclasses import replace

import pytest
from support.walk import completion, make_question

from stepwell.core.entry import Answer, Entry, SourceValue, Usage
from stepwell.core.names import Endpoint, Form, Position
from stepwell.pipeline.fill import Came, Made, fill
from stepwell.pipeline.question import Question
from stepwell.policy.classes import GENERAL
from stepwell.policy.gates import Gate
from stepwell.testing.entries import make_key, make_namespace
from stepwell.wire.controls import Directives
from stepwell.wire.summary import summarise

SOURCES = (SourceValue("faq", "v7"),)
MADE = Made(Position(5), SOURCES, Position(3))
NOW = 1_000.0


def filled(
    question: Question, *, status: int = 200, body: bytes | None = None, groups: str = ""
) -> Entry | Gate:
    """Return what becomes of a reply that was complete at ``NOW``."""
    answer = Answer(Form.JSON, completion() if body is None else body)
    came = Came(status, answer, summarise(Endpoint.CHAT, answer), 2.5, groups)
    return fill(question, came, MADE, NOW)


@pytest.mark.parametrize(
    ("groups", "tags"),
    [('"b", "a"', ("a", "标签", "b")), ("", ("a", "标签")), ('"b", c', ("a", "标签"))],
)
def test_groups_are_tags(groups: str, tags: tuple[str, ...]) -> None:
    """Beside those of the request, each once; a field that cannot be read says nothing."""
    entry = filled(make_question(tags=("a", "标签")), groups=groups)
    assert isinstance(entry, Entry)
    assert entry.tags == tags


def test_more_groups_than_are_kept() -> None:
    """It could not be invalidated by all of them; other gates speak first."""
    groups = ", ".join(f'"{number}"' for number in range(33))
    assert filled(make_question(), groups=groups) is Gate.GROUPS
    assert filled(make_question(), groups=groups, status=500) is Gate.STATUS


def test_a_good_answer_becomes_an_entry() -> None:
    """It carries what was asked, when it was made and under what; its life begins now."""
    swr = replace(GENERAL, ttl_seconds=60, stale_if_error_seconds=30)
    assert filled(make_question(request_class=swr, tags=("a",))) == Entry(
        key=make_key("question"),
        namespace=make_namespace("tenant"),
        endpoint=Endpoint.CHAT,
        model="model",
        request_class="general",
        answer=Answer(Form.JSON, completion()),
        created_at=NOW,
        expires_at=NOW + 60,
        keep_until=NOW + 90,
        as_of=Position(5),
        usage=Usage(prompt_tokens=3, completion_tokens=5),
        upstream_seconds=2.5,
        sources=SOURCES,
        tags=("a",),
    )


def test_the_callers_ttl_shortens_the_entrys_life() -> None:
    """An entry outlives neither what its class nor what its caller allows."""
    entry = filled(make_question(directives=Directives(ttl_seconds=10)))
    assert isinstance(entry, Entry)
    assert (entry.expires_at, entry.keep_until) == (NOW + 10, NOW + 10)


def test_an_answer_without_usage_costs_nothing_known() -> None:
    """Tokens are not made up."""
    body = completion().partition(b', "usage"')[0] + b"}"
    entry = filled(make_question(), body=body)
    assert isinstance(entry, Entry)
    assert entry.usage == Usage()


@pytest.mark.parametrize(
    ("question", "status", "body", "gate"),
    [
        (make_question(directives=Directives(no_store=True)), 200, None, Gate.NO_STORE),
        (make_question(), 500, None, Gate.STATUS),
        (make_question(), 200, b"{", Gate.INCOMPLETE),
        # A bypassed question has no key to be stored under, whatever else it says.
        (make_question(bypass="store"), 200, None, Gate.CLASS_NEVER),
    ],
)
def test_a_gate_that_refuses_is_named(
    question: Question, status: int, body: bytes | None, gate: Gate
) -> None:
    """The reason is a value, so that it can be counted."""
    assert filled(question, status=status, body=body) == gate


@pytest.mark.parametrize(
    ("last_invalidation", "sources", "suits"),
    [
        (3, SOURCES, True),
        (5, SOURCES, True),
        (6, SOURCES, False),
        (3, (), False),
        (3, (SourceValue("faq", "v8"),), False),
    ],
)
def test_whom_an_answer_suits(
    last_invalidation: int, sources: tuple[SourceValue, ...], *, suits: bool
) -> None:
    """Not those who know of a later invalidation, or of another value of a source."""
    assert MADE.suits(Position(last_invalidation), sources) is suits
