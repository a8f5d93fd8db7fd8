"""No answer is served past its time, under another source's value, or after it was forgotten."""

import asyncio
from typing import Any

import pytest
from support.gateway import Answer, Gateway, StartGateway
from support.metrics import reaches
from support.time import stop_time

from stepwell.testing.clock import HandClock
from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script

HOUR = 3_600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """The gateways' time."""
    return stop_time(monkeypatch)


async def ask(gateway: Gateway, **fields: Any) -> Answer:
    """Ask the same question every time."""
    return await gateway.ask("the question", **fields)


async def verdict(gateway: Gateway, **fields: Any) -> str:
    """Ask; return what the answer says of itself."""
    return str((await ask(gateway, **fields)).headers["x-cache"])


def of_class(name: str) -> dict[str, Any]:
    """Return what makes a request one of a class."""
    return {"headers": {"x-stepwell-class": name}}


@pytest.mark.parametrize(
    ("name", "ttl_seconds"),
    [
        ("translation", 24 * HOUR),
        ("formatting", 24 * HOUR),
        ("general", HOUR),
        ("faq", HOUR),
        ("code", HOUR // 2),
        ("realtime", 300),
    ],
)
async def test_a_class_decides_how_long(
    clock: HandClock, gateway: Gateway, name: str, ttl_seconds: int
) -> None:
    """Served until its last second, however often, and not in the next."""
    first = await ask(gateway, **of_class(name))
    clock.seconds += ttl_seconds - 1
    last = await ask(gateway, **of_class(name))
    clock.seconds += 1
    after = await ask(gateway, **of_class(name))

    assert first.headers["x-cache"] == "MISS"
    assert last.cache_status == "stepwell; hit; ttl=1; detail=exact"
    assert last.headers["age"] == str(ttl_seconds - 1)
    assert after.cache_status in {
        "stepwell; fwd=miss; stored",
        "stepwell; fwd=stale; stored; detail=expired",
    }


async def test_a_hit_does_not_prolong_an_answers_life(clock: HandClock, gateway: Gateway) -> None:
    """A question that is asked every minute is still asked anew every hour."""
    for _ in range(60):
        await ask(gateway)
        clock.seconds += 60
    assert await verdict(gateway) == "MISS"


async def test_the_class_that_is_asked_for_counts(clock: HandClock, gateway: Gateway) -> None:
    """An answer kept for a day is none for who wants it of the last five minutes."""
    await ask(gateway, **of_class("translation"))
    clock.seconds += 301
    assert await verdict(gateway, **of_class("translation")) == "HIT"
    assert await verdict(gateway, **of_class("realtime")) == "MISS"


async def test_an_answer_from_the_future_is_not_served(clock: HandClock, gateway: Gateway) -> None:
    """The clock was turned back: nobody can tell how old it is."""
    await ask(gateway)
    clock.seconds -= 30
    assert await verdict(gateway) == "HIT"
    clock.seconds -= 31
    assert (await ask(gateway)).cache_status == "stepwell; fwd=stale; stored; detail=clock"


def stating(value: str, where: str) -> dict[str, Any]:
    """Return how a request states the value of the source ``faq``."""
    if where == "header":
        return {"headers": {"x-stepwell-sources": f"faq={value}"}}
    return {"metadata": {"stepwell_sources": f"faq={value}"}}


@pytest.mark.parametrize("where", ["header", "metadata"])
async def test_a_stated_value_makes_older_answers_stale(
    start_gateway: StartGateway, upstream: FakeUpstream, where: str
) -> None:
    """At once, in every gateway, also for those who state none; the model server hears nothing."""
    async with start_gateway() as one, start_gateway() as other:
        seen = []
        for gateway, stated in (
            (one, stating("v1", where)),
            (one, stating("v1", where)),
            (other, {}),
            (one, stating("v2", where)),
            (other, {}),
            (other, stating("v2", where)),
        ):
            seen.append(await verdict(gateway, **stated))
            await gateway.settle()
        assert seen == ["MISS", "HIT", "HIT", "MISS", "HIT", "HIT"]
    assert all(b"faq" not in received.body for received in upstream.calls)


async def test_a_stated_value_makes_other_answers_stale_too(start_gateway: StartGateway) -> None:
    """A source is not one question's: everything that was made under the old value is stale."""
    v1, v2 = stating("v1", "header"), stating("v2", "header")
    async with start_gateway() as one, start_gateway() as other:
        await one.ask("one", **v1)
        await one.ask("another", **v1)
        await one.settle()
        assert (await other.ask("another")).headers["x-cache"] == "HIT"
        await one.ask("one", **v2)
        answers = []
        for gateway in (other, one):
            answers.append(await gateway.ask("another"))
            await gateway.settle()
        assert answers[0].cache_status == "stepwell; fwd=stale; stored; detail=source-moved"
        assert answers[1].headers["x-cache"] == "HIT"


@pytest.mark.parametrize("own", [False, True])
async def test_a_moved_source_makes_answers_stale_everywhere(
    start_gateway: StartGateway, *, own: bool
) -> None:
    """`POST /admin/sources`, for everybody; also for a tenant that had a value of its own."""
    stated = stating("v1", "header") if own else {}
    async with start_gateway() as one, start_gateway() as other:
        name, asked = ("faq", {}) if own else ("last_updated", of_class("faq"))
        moved = {"name": name, "value": "v2"}
        for gateway, fields in ((one, stated or asked), (other, asked)):
            before = await verdict(gateway, **fields)
            await gateway.settle()
        assert before == "HIT"
        reply = await one.post(moved, path="/admin/sources", key=None)
        assert (reply.status, reply.body) == (200, b'{"moved":true}')
        seen = []
        for gateway in (other, one):
            seen.append(await ask(gateway, **asked))
            await gateway.settle()
        assert seen[0].cache_status == "stepwell; fwd=stale; stored; detail=source-moved"
        assert seen[1].headers["x-cache"] == "HIT"
        again = await other.post(moved, path="/admin/sources", key=None)
        assert again.body == b'{"moved":false}'


PATIENT: dict[str, Any] = {
    "classes": {
        "patient": {
            "ttl_seconds": 100,
            "stale_while_revalidate_seconds": 50,
            "stale_if_error_seconds": 200,
            "sources": ["faq"],
        }
    }
}


async def test_an_expired_answer_is_served_while_a_new_one_is_fetched(
    clock: HandClock, start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Nobody waits for it, and it is fetched once however many ask."""
    go_on = asyncio.Event()
    async with start_gateway(**PATIENT) as gateway:
        await ask(gateway, **of_class("patient"))
        clock.seconds += 149
        upstream.queue.append(Script(hold=go_on))
        answers = await asyncio.gather(*[ask(gateway, **of_class("patient")) for _ in range(10)])
        assert {answer.cache_status for answer in answers} == {
            "stepwell; hit; ttl=-49; detail=exact"
        }
        assert {answer.headers["x-cache"] for answer in answers} == {"STALE"}
        assert {answer.headers["age"] for answer in answers} == {"149"}
        go_on.set()
        await reaches(gateway, "stepwell_stored_total", 2)
        assert (await ask(gateway, **of_class("patient"))).headers["age"] == "0"
    assert upstream.call_count == 2


FAILURES = {
    "500": Script(status=500),
    "429": Script(status=429),
    "timeout": Script(fault=Fault.SILENT),
    "broken": Script(fault=Fault.RESET),
}


@pytest.mark.parametrize("failure", [*FAILURES, "unreachable"])
async def test_an_expired_answer_stands_in_for_a_failure(
    clock: HandClock, start_gateway: StartGateway, upstream: FakeUpstream, failure: str
) -> None:
    """As long as its class allows; then the failure is the answer."""
    table = {"base_url": upstream.base_url, "first_byte_timeout_seconds": 0.2}
    async with start_gateway(**PATIENT, upstreams={"fake": table}) as gateway:
        fresh = await ask(gateway, **of_class("patient"))
        if failure == "unreachable":
            await upstream.__aexit__()
        else:
            upstream.scripts["fake"] = FAILURES[failure]
        clock.seconds += 299
        stale = await ask(gateway, **of_class("patient"))
        clock.seconds += 1
        late = await ask(gateway, **of_class("patient"))

    assert (stale.status, stale.headers["x-cache"], stale.body) == (200, "STALE", fresh.body)
    assert late.status == {"500": 500, "429": 429, "timeout": 504}.get(failure, 502)
    assert "x-stepwell-key" not in late.headers


async def test_a_moved_source_is_never_served_stale(
    clock: HandClock, start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Neither while a new answer could be fetched behind it, nor because none can be had."""
    async with start_gateway(**PATIENT) as gateway:
        await ask(gateway, **of_class("patient"))
        await gateway.post({"name": "faq", "value": "v2"}, path="/admin/sources", key=None)
        upstream.scripts["fake"] = Script(status=503)
        for seconds in (0, 110):
            clock.seconds += seconds
            assert (await ask(gateway, **of_class("patient"))).status == 503


async def test_an_answer_on_its_way_is_kept_out_by_an_invalidation_elsewhere(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """The answer was asked for before, so it may be of what is to be forgotten."""
    go_on = asyncio.Event()
    upstream.queue.append(Script(hold=go_on))
    async with start_gateway() as one, start_gateway() as other:
        asked = asyncio.create_task(ask(one))
        await upstream.wait_for_calls(1)
        body = {"model": "fake", "dry_run": False}
        await other.post(body, path="/admin/invalidate", key=None)
        go_on.set()
        assert (await asked).status == 200
        assert await verdict(one) == "MISS"
        await one.settle()
        assert await verdict(other) == "HIT"
    assert upstream.call_count == 2
