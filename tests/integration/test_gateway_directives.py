"""What a caller may say about caching, and that saying it only ever tightens the rules."""

import json
from typing import Any

import pytest
from support.gateway import Answer, Gateway, StartGateway
from support.time import stop_time

from stepwell.testing.clock import HandClock
from stepwell.testing.fake_upstream import FakeUpstream


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """The gateway's time."""
    return stop_time(monkeypatch)


async def ask(gateway: Gateway, said: str | dict[str, Any] | None = None) -> Answer:
    """Ask the same question, with something said in the header or in the body."""
    match said:
        case None:
            return await gateway.ask("the question")
        case str():
            return await gateway.ask("the question", headers={"cache-control": said})
        case _:
            return await gateway.ask("the question", cache=said)


async def verdict(gateway: Gateway, said: str | dict[str, Any] | None = None) -> str:
    """Ask; return what the answer says of itself."""
    return str((await ask(gateway, said)).headers["x-cache"])


@pytest.mark.parametrize(
    "said", ["no-cache", "No-Cache", "max-age=9, no-cache", {"no-cache": True}]
)
async def test_no_cache_asks_anew_and_stores(
    clock: HandClock, gateway: Gateway, upstream: FakeUpstream, said: str | dict[str, Any]
) -> None:
    """The new answer replaces the old one, and counts from now."""
    await ask(gateway)
    clock.seconds += 100
    anew = await ask(gateway, said)
    assert anew.cache_status == "stepwell; fwd=bypass; stored; detail=no-cache"
    assert (anew.headers["x-cache"], anew.headers["x-stepwell-bypass"]) == ("BYPASS", "no-cache")
    assert (await ask(gateway)).headers["age"] == "0"
    assert upstream.call_count == 2


@pytest.mark.parametrize("said", ["no-store", {"no-store": True}, {"ttl": 0}, {"ttl": 0.0}])
async def test_no_store_leaves_nothing_behind(
    gateway: Gateway, upstream: FakeUpstream, said: str | dict[str, Any]
) -> None:
    """What is stored already may be served to it."""
    first = await ask(gateway, said)
    assert first.cache_status == "stepwell; fwd=miss"
    assert "x-stepwell-key" not in first.headers
    assert await verdict(gateway) == "MISS"
    assert await verdict(gateway, said) == "HIT"
    assert upstream.call_count == 2


async def test_no_cache_and_no_store_see_and_leave_nothing(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Both at once, as LiteLLM's callers write it, and as HTTP's do."""
    await ask(gateway)
    for said in ("no-cache, no-store", {"no-cache": True, "no-store": True}):
        assert "stored" not in (await ask(gateway, said)).cache_status
    assert upstream.call_count == 3


@pytest.mark.parametrize(
    "said",
    [
        "max-age=60",
        'max-age="60"',
        "max-age=600, max-age=60",
        "min-fresh=3540",
        {"s-maxage": 60},
        {"s-max-age": 60},
        {"s-maxage": 60, "s-max-age": 600},
    ],
)
async def test_a_caller_may_want_it_fresher(
    clock: HandClock, gateway: Gateway, said: str | dict[str, Any]
) -> None:
    """An answer that its class would serve for an hour does for a minute, for this caller."""
    await ask(gateway)
    clock.seconds += 60
    assert await verdict(gateway, said) == "HIT"
    clock.seconds += 1
    anew = await ask(gateway, said)
    assert anew.cache_status == "stepwell; fwd=stale; stored; detail=too-old"


@pytest.mark.parametrize("said", [{"ttl": 60}, {"ttl": 60.0}])
async def test_a_caller_may_want_it_kept_shorter(
    clock: HandClock, gateway: Gateway, said: dict[str, Any]
) -> None:
    """Its own answer expires earlier, for everybody."""
    assert (await ask(gateway, said)).cache_status == "stepwell; fwd=miss; stored"
    clock.seconds += 59
    assert (await ask(gateway)).cache_status == "stepwell; hit; ttl=1; detail=exact"
    clock.seconds += 1
    assert await verdict(gateway) == "MISS"


@pytest.mark.parametrize("said", [{"ttl": 1e9}, {"s-maxage": 1e9}, "max-age=999999999"])
async def test_nobody_makes_an_answer_last_longer(
    clock: HandClock, gateway: Gateway, said: str | dict[str, Any]
) -> None:
    """The class's hour is the most there is."""
    await ask(gateway, said)
    clock.seconds += 3_600
    assert await verdict(gateway, said) == "MISS"


ON_ERROR = {"classes": {"general": {"ttl_seconds": 100, "stale_if_error_seconds": 50}}}


@pytest.mark.parametrize(
    ("said", "expired_seconds", "expected"),
    [
        ("max-stale", 49, "STALE"),
        ("max-stale", 50, "MISS"),
        ("max-stale=1000000", 49, "STALE"),
        ("max-stale=1000000", 50, "MISS"),
        ("max-stale=20", 19, "STALE"),
        ("max-stale=20", 20, "MISS"),
        ("max-stale=1000, max-stale=20", 20, "MISS"),
        (None, 1, "MISS"),
    ],
)
async def test_max_stale_goes_as_far_as_the_class_allows(
    clock: HandClock,
    start_gateway: StartGateway,
    said: str | None,
    expired_seconds: int,
    expected: str,
) -> None:
    """Here: 50 seconds past the time; where the class says nothing, no second."""
    async with start_gateway(**ON_ERROR) as gateway:
        await ask(gateway)
        clock.seconds += 100 + expired_seconds
        assert await verdict(gateway, said) == expected


async def test_max_stale_without_the_classs_leave_is_nothing(
    clock: HandClock, gateway: Gateway
) -> None:
    """The built-in classes serve nothing stale."""
    await ask(gateway)
    clock.seconds += 3_601
    assert await verdict(gateway, "max-stale") == "MISS"


async def test_only_if_cached(gateway: Gateway, upstream: FakeUpstream) -> None:
    """A hit, or 504 with an error that OpenAI's clients can read; nothing goes upstream."""
    unmet = await ask(gateway, "only-if-cached")
    assert unmet.status == 504
    assert unmet.headers["content-type"] == "application/json"
    error = json.loads(unmet.body)["error"]
    assert error == {
        "message": error["message"],
        "type": "not_cached_error",
        "param": None,
        "code": "only_if_cached",
    }
    assert "only-if-cached" in error["message"]
    assert upstream.call_count == 0

    await ask(gateway)
    assert await verdict(gateway, "only-if-cached") == "HIT"
    assert (await ask(gateway, "only-if-cached, no-cache")).status == 504
    bypassed = await gateway.ask("hi", headers={"cache-control": "only-if-cached"}, key=None)
    assert bypassed.status == 504
    assert upstream.call_count == 1


async def test_only_if_cached_with_an_expired_answer(
    clock: HandClock, gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Past its time it is none."""
    await ask(gateway)
    clock.seconds += 3_600
    assert (await ask(gateway, "only-if-cached")).status == 504
    assert upstream.call_count == 1


async def test_a_sub_namespace_is_a_space_of_its_own(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """`cache.namespace` narrows the tenant's; the same name is the same space."""
    said: list[dict[str, Any] | None] = [None, {"namespace": "a"}, {"namespace": "b"}]
    assert [await verdict(gateway, one) for one in said] == ["MISS"] * 3
    assert [await verdict(gateway, one) for one in said] == ["HIT"] * 3
    assert upstream.call_count == 3


@pytest.mark.parametrize(
    "said", [{}, {"no-cache": None, "ttl": None}, {"no-cache": False}, "foo=1"]
)
async def test_what_says_nothing_changes_nothing(
    gateway: Gateway, upstream: FakeUpstream, said: str | dict[str, Any]
) -> None:
    """Empty, null, false, or a directive that is not for requests."""
    await ask(gateway)
    assert await verdict(gateway, said) == "HIT"
    assert all("cache" not in received.json() for received in upstream.calls)


async def test_the_stricter_of_header_and_body_counts(clock: HandClock, gateway: Gateway) -> None:
    """Whichever it is."""
    await ask(gateway)
    clock.seconds += 61
    for header, body in (("max-age=60", 600), ("max-age=600", 60)):
        answer = await gateway.ask(
            "the question",
            headers={"cache-control": f"{header}, no-store"},
            cache={"s-maxage": body},
        )
        assert answer.cache_status == "stepwell; fwd=stale; detail=too-old"


UNREADABLE: list[tuple[str | dict[str, Any], str]] = [
    ("max-age=soon", "Cache-Control"),
    ("max-age", "Cache-Control"),
    ("min-fresh=-1", "Cache-Control"),
    ("max-stale=1.5", "Cache-Control"),
    ({"ttl": "60"}, "cache.ttl"),
    ({"ttl": -1}, "cache.ttl"),
    ({"ttl": True}, "cache.ttl"),
    ({"s-maxage": []}, "cache.s-maxage"),
    ({"no-cache": "yes"}, "cache.no-cache"),
    ({"namespace": ""}, "cache.namespace"),
    ({"namespace": 1}, "cache.namespace"),
    ({"no_cache": True}, "cache.no_cache"),
]


async def test_what_cannot_be_read_is_refused(gateway: Gateway, upstream: FakeUpstream) -> None:
    """A caller who errs should know, and know where; nothing goes upstream."""
    for said, param in UNREADABLE:
        answer = await ask(gateway, said)
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"], error["param"]) == (400, "invalid_control", param)
    assert upstream.call_count == 0
