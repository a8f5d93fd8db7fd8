"""What a reply says about the cache."""

from typing import Any

import pytest

from stepwell.core.events import Result
from stepwell.core.names import Form, LayerName, Tier
from stepwell.core.outcome import Bypass, Hit, Miss, Stale, StaleReason
from stepwell.core.ports import Headers
from stepwell.gateway.replies import cache_status, header_of
from stepwell.pipeline.served import Served
from stepwell.testing.entries import make_entry, make_key

KEY = make_key("question")
ENTRY = make_entry()
MISS = Miss(LayerName.EXACT)
HIT = Hit(ENTRY, LayerName.EXACT, Tier.MEMORY)
EXPIRED = Stale(ENTRY, LayerName.EXACT, Tier.MEMORY, StaleReason.EXPIRED)


def served(result: Result, outcome: Any, **fields: Any) -> Served:
    """Return a reply; everything not given is as for a plain one."""
    given: dict[str, Any] = {
        "status": 200,
        "form": Form.JSON,
        "body": b"{}",
        "key": KEY,
        "headers": (("content-type", "application/json"), ("x-request-id", "r")),
        **fields,
    }
    return Served(result=result, outcome=outcome, **given)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            served(Result.HIT, HIT, ttl_seconds=12.9),
            "stepwell; hit; ttl=12; detail=exact",
        ),
        (
            served(Result.STALE, EXPIRED, ttl_seconds=-0.1),
            "stepwell; hit; ttl=-1; detail=exact",
        ),
        (served(Result.MISS, MISS), "stepwell; fwd=miss"),
        (served(Result.MISS, MISS, stored=True), "stepwell; fwd=miss; stored"),
        (served(Result.COLLAPSED, MISS, stored=True), "stepwell; fwd=miss; collapsed"),
        (
            served(Result.MISS, EXPIRED, stored=True),
            "stepwell; fwd=stale; stored; detail=expired",
        ),
        (
            served(Result.BYPASS, Bypass("no API key"), key=None),
            'stepwell; fwd=bypass; detail="no API key"',
        ),
        (
            served(Result.MISS, Bypass("no-cache"), stored=True),
            "stepwell; fwd=bypass; stored; detail=no-cache",
        ),
    ],
)
def test_cache_status(reply: Served, expected: str) -> None:
    """RFC 9211: one member, whose parameters say what happened."""
    assert cache_status(reply) == expected


def test_a_hit_has_its_age_and_key() -> None:
    """And the content type of its form; nothing of the reply it was made of."""
    reply = served(Result.HIT, HIT, headers=(), form=Form.SSE, age_seconds=7.9, ttl_seconds=1.0)
    assert header_of(reply) == (
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-status", "stepwell; hit; ttl=1; detail=exact"),
        ("x-cache", "HIT"),
        ("age", "7"),
        ("x-stepwell-key", KEY.hex()),
    )


@pytest.mark.parametrize("stored", [True, False])
def test_a_miss_has_what_the_model_server_sent(*, stored: bool) -> None:
    """A key only if there is something under it."""
    key: Headers = (("x-stepwell-key", KEY.hex()),) if stored else ()
    assert header_of(served(Result.MISS, MISS, stored=stored)) == (
        ("content-type", "application/json"),
        ("x-request-id", "r"),
        ("cache-status", f"stepwell; fwd=miss{'; stored' if stored else ''}"),
        ("x-cache", "MISS"),
        *key,
    )


def test_a_bypass_says_why() -> None:
    """In a field of its own, too."""
    reply = served(Result.BYPASS, Bypass("class factual"), key=None, headers=())
    assert ("x-stepwell-bypass", "class factual") in header_of(reply)


def test_another_cache_on_the_way_does_not_speak_for_this_one() -> None:
    """Its age and key are dropped; its own member of ``Cache-Status`` stays, before ours."""
    theirs = (
        ("age", "99"),
        ("x-cache", "HIT"),
        ("x-stepwell-key", "00"),
        ("cache-status", "other; hit"),
    )
    fields = header_of(served(Result.MISS, MISS, headers=theirs))
    assert [field for field in fields if field[0] in {"age", "x-cache", "x-stepwell-key"}] == [
        ("x-cache", "MISS")
    ]
    assert [value for name, value in fields if name == "cache-status"] == [
        "other; hit",
        "stepwell; fwd=miss",
    ]
