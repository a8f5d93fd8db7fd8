"""Identical requests at the same time cost one call to the model server, over real sockets."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp
import pytest
from support.gateway import Answer, Gateway, StartGateway, question

from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script

STREAM = {"stream": True}
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}
SHAPES: dict[str, dict[str, Any]] = {"json": {}, "stream": STREAM, "usage": WITH_USAGE}

STORED = "stepwell; fwd=miss; stored"
COLLAPSED = "stepwell; fwd=miss; collapsed"


async def settled(gateway: Gateway) -> None:
    """Return when the gateway has dealt with whatever was sent before.

    Requests are read, looked up and sent on in order, so one that went all the way has none
    before it that has not.
    """
    for number in range(2):
        await gateway.ask(f"barrier {number}", model="barrier", cache={"no-store": True})


@asynccontextmanager
async def asking(gateway: Gateway, *texts_and_fields: dict[str, Any]) -> AsyncIterator[Any]:
    """Send requests; when the block begins they are all waiting for the model server."""
    tasks = []
    for fields in texts_and_fields:
        tasks.append(asyncio.create_task(gateway.ask("the question", **fields)))
        await asyncio.sleep(0)
    await settled(gateway)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def direct(gateway: Gateway, upstream: FakeUpstream, fields: dict[str, Any]) -> bytes:
    """Return what the model server itself answers; the call is not counted."""
    body = question("the question", model="held", **fields)
    upstream.queue.append(Script())
    async with gateway.http.post(f"{upstream.base_url}/chat/completions", json=body) as reply:
        answer = await reply.read()
    upstream.call_count -= 1
    return answer


async def test_what_memory_has_no_room_for_is_not_asked_twice(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Between the end of the call and the end of its storing, the call itself is still there."""
    async with start_gateway(stores={"memory": {"max_bytes": 1_024}}) as gateway:
        for number in range(10):
            first, second = [await gateway.ask(f"question {number}") for _ in range(2)]
            assert first.headers["x-cache"] == "MISS"
            assert second.headers["x-cache"] in {"COLLAPSED", "HIT"}
            assert second.body == first.body
    assert upstream.call_count == 10


def calls(upstream: FakeUpstream) -> int:
    """Return how many calls there were, barriers left out."""
    return sum(received.json().get("model") != "barrier" for received in upstream.calls)


def held(upstream: FakeUpstream, **script: Any) -> asyncio.Event:
    """Make the model ``held`` wait for the event returned."""
    go_on = asyncio.Event()
    upstream.scripts["held"] = Script(hold=go_on, **script)
    return go_on


@pytest.mark.parametrize("shape", SHAPES)
async def test_many_cost_one_call(gateway: Gateway, upstream: FakeUpstream, shape: str) -> None:
    """One is stored, the others say they shared; all have the model server's own bytes."""
    go_on = held(upstream)
    fields = {"model": "held", **SHAPES[shape]}
    async with asking(gateway, *[fields] * 20) as tasks:
        go_on.set()
        answers = [await task for task in tasks]

    assert calls(upstream) == 1
    assert Counter(answer.cache_status for answer in answers) == {STORED: 1, COLLAPSED: 19}
    assert Counter(answer.headers["x-cache"] for answer in answers) == {"MISS": 1, "COLLAPSED": 19}
    assert {answer.body for answer in answers} == {await direct(gateway, upstream, SHAPES[shape])}


@pytest.mark.parametrize("leader", SHAPES)
async def test_each_gets_its_own_shape(
    gateway: Gateway, upstream: FakeUpstream, leader: str
) -> None:
    """Whoever leads, with usage or without: JSON is whole, streams are streams."""
    go_on = held(upstream)
    order = [leader, *[shape for shape in SHAPES if shape != leader]]
    fields = [{"model": "held", **SHAPES[shape]} for shape in order]
    async with asking(gateway, *fields) as tasks:
        go_on.set()
        answers: dict[str, Answer] = dict(zip(order, [await task for task in tasks], strict=True))

    assert calls(upstream) == 1
    assert {shape: answer.cache_status for shape, answer in answers.items()} == {
        shape: STORED if shape == leader else COLLAPSED for shape in SHAPES
    }
    whole = json.loads(answers["json"].body)
    assert whole["object"] == "chat.completion"
    assert whole["usage"]["total_tokens"] > 0
    text = whole["choices"][0]["message"]["content"]
    assert text.endswith("echo: the question")
    for shape in ("stream", "usage"):
        assert answers[shape].headers["content-type"].startswith("text/event-stream")
        assert answers[shape].body.endswith(b"data: [DONE]\n\n")
        assert streamed_text(answers[shape].body) == text
        assert (b'"usage":{' in answers[shape].body) is (shape == "usage")


def streamed_text(body: bytes) -> str:
    """Return the text that a stream adds up to."""
    events = [
        json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")
    ]
    return "".join(
        choice["delta"].get("content") or "" for event in events for choice in event["choices"]
    )


class Listener:
    """A client that reads a stream as it comes."""

    def __init__(self, gateway: Gateway, fields: dict[str, Any]) -> None:
        self._request = gateway.http.post(
            f"{gateway.origin}/v1/chat/completions",
            json=question("the question", **fields),
            headers={"authorization": "Bearer sk-test"},
        )
        self.reply: aiohttp.ClientResponse

    async def __aenter__(self) -> Self:
        self.reply = await self._request
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.reply.close()

    async def event(self) -> bytes:
        """Return the next event."""
        return await self.reply.content.readuntil(b"\n\n")

    async def rest(self) -> bytes:
        """Return everything from here on."""
        return await self.reply.content.read()


async def test_followers_read_the_stream_live(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Also one that comes when it has begun has the first events while the rest is held back."""
    go_on = asyncio.Event()
    upstream.scripts["held"] = Script(resume=go_on, after_events=3)
    fields = {"model": "held", **STREAM}
    async with Listener(gateway, fields) as leader:
        first = [await leader.event() for _ in range(3)]
        async with Listener(gateway, fields) as follower:
            assert [await follower.event() for _ in range(3)] == first
            assert follower.reply.headers["cache-status"] == COLLAPSED
            go_on.set()
            assert await leader.rest() == await follower.rest()
    assert calls(upstream) == 1


async def test_a_leader_that_leaves_takes_nobody_along(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Its followers have the whole answer, and it is stored."""
    go_on = held(upstream)
    async with asking(gateway, *[{"model": "held"}] * 3) as (leader, *followers):
        leader.cancel()
        await settled(gateway)
        assert not upstream.calls[0].abandoned.is_set()
        go_on.set()
        answers = [await follower for follower in followers]
    assert [answer.cache_status for answer in answers] == [COLLAPSED] * 2
    assert (await gateway.ask("the question", model="held")).headers["x-cache"] == "HIT"
    assert calls(upstream) == 1


@pytest.mark.parametrize("shape", ["json", "stream"])
async def test_the_last_to_leave_stops_the_model_server(
    gateway: Gateway, upstream: FakeUpstream, shape: str
) -> None:
    """Before an answer has begun; the next request starts a call of its own."""
    go_on = held(upstream)
    fields = {"model": "held", **SHAPES[shape]}
    async with asking(gateway, *[fields] * 3) as tasks:
        for task in tasks:
            task.cancel()
        async with asyncio.timeout(5):
            await upstream.calls[0].abandoned.wait()
    go_on.set()
    answer = await gateway.ask("the question", **fields)
    assert (answer.cache_status, calls(upstream)) == (STORED, 2)


async def test_leaving_in_the_middle_of_a_stream_stops_the_model_server(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Not when the first leaves; when the last does."""
    upstream.scripts["held"] = Script(resume=asyncio.Event())
    fields = {"model": "held", **STREAM}
    async with Listener(gateway, fields) as follower:
        async with Listener(gateway, fields) as leader:
            await leader.event()
            await follower.event()
        await settled(gateway)
        assert not upstream.calls[0].abandoned.is_set()
    async with asyncio.timeout(5):
        await upstream.calls[0].abandoned.wait()
    assert calls(upstream) == 1


FAILURES: dict[str, tuple[Script, int]] = {
    "500": (Script(status=500), 500),
    "503": (Script(status=503), 503),
    "429": (Script(status=429, retry_after_seconds=7), 429),
    "not HTTP": (Script(fault=Fault.NOT_HTTP), 502),
    "closed": (Script(fault=Fault.CLOSE), 502),
    "reset": (Script(fault=Fault.RESET), 502),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_followers_of_a_failure_ask_once_more(
    gateway: Gateway, upstream: FakeUpstream, failure: str
) -> None:
    """Two calls in all: the leader hears of the failure, the others share the second answer."""
    script, status = FAILURES[failure]
    go_on = held(upstream, status=script.status, fault=script.fault)
    async with asking(gateway, *[{"model": "held"}] * 6) as tasks:
        upstream.scripts["held"] = Script()
        go_on.set()
        answers = [await task for task in tasks]
    assert Counter(answer.status for answer in answers) == {status: 1, 200: 5}
    assert calls(upstream) == 2


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_is_nobodys_answer_later(
    gateway: Gateway, upstream: FakeUpstream, failure: str
) -> None:
    """When the second call fails too, all hear of it after two calls, and nothing is stored."""
    script, status = FAILURES[failure]
    go_on = held(upstream, status=script.status, fault=script.fault)
    async with asking(gateway, *[{"model": "held"}] * 6) as tasks:
        go_on.set()
        answers = [await task for task in tasks]
    assert [answer.status for answer in answers] == [status] * 6
    assert calls(upstream) == 2

    upstream.scripts["held"] = Script()
    later = await gateway.ask("the question", model="held")
    assert (later.status, later.cache_status) == (200, STORED)


async def test_a_model_server_that_is_not_there_is_tried_twice(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """However many wait for it; when it is back, it is asked again."""
    await upstream.__aexit__()
    answers = await asyncio.gather(*[gateway.ask("the question") for _ in range(6)])
    assert [answer.status for answer in answers] == [502] * 6
    metrics = (await gateway.get("/metrics")).body.decode()
    assert 'stepwell_upstream_errors_total{kind="unreachable",upstream="fake"} 2.0' in metrics

    async with upstream:
        assert (await gateway.ask("the question")).cache_status == STORED


async def test_a_failures_retry_after_reaches_the_client(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """The model server's own words about when to come back."""
    answer = await gateway.ask("hi", model="fake-429")
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


async def test_a_stream_that_dies_is_an_error_for_all_and_stored_for_none(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """What was read stays read; an error event ends it; the next request starts anew."""
    go_on = held(upstream, fault=Fault.RESET, after_events=3)
    fields = {"model": "held", **STREAM}
    async with asking(gateway, *[fields] * 3) as tasks:
        go_on.set()
        answers = [await task for task in tasks]
    assert len({answer.body for answer in answers}) == 1
    assert b'"code":"upstream_broken"' in answers[0].body
    assert b"[DONE]" not in answers[0].body
    assert calls(upstream) == 1

    upstream.scripts["held"] = Script()
    assert (await gateway.ask("the question", **fields)).cache_status == STORED


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_callers_fault_is_shared_and_not_stored(
    gateway: Gateway, upstream: FakeUpstream, status: int
) -> None:
    """Equal requests are equally wrong; later the model server is asked again."""
    go_on = held(upstream, status=status)
    async with asking(gateway, *[{"model": "held"}] * 4) as tasks:
        go_on.set()
        answers = [await task for task in tasks]
    assert [answer.status for answer in answers] == [status] * 4
    assert len({answer.body for answer in answers}) == 1
    assert calls(upstream) == 1
    await gateway.ask("the question", model="held")
    assert calls(upstream) == 2


@pytest.mark.parametrize(
    "said",
    [
        {"headers": {"cache-control": "no-cache"}},
        {"headers": {"cache-control": "no-store"}},
        {"cache": {"no-cache": True}},
        {"cache": {"no-store": True}},
        {"cache": {"ttl": 0}},
    ],
    ids=str,
)
async def test_who_wants_no_cache_shares_no_call(
    gateway: Gateway, upstream: FakeUpstream, said: dict[str, Any]
) -> None:
    """Neither with a plain request nor with one that says the same."""
    go_on = held(upstream)
    fields = {"model": "held", **said}
    async with asking(gateway, {"model": "held"}, fields, fields) as tasks:
        assert calls(upstream) == 3
        go_on.set()
        answers = [await task for task in tasks]
    assert [answer.status for answer in answers] == [200] * 3
    assert "collapsed" not in "".join(answer.cache_status for answer in answers)


async def test_a_follower_waits_only_so_long(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """A model server that hangs on the first call does not hang the others."""
    go_on = held(upstream)
    async with start_gateway(single_flight={"max_wait_seconds": 0.2}) as gateway:
        leader = asyncio.create_task(gateway.ask("the question", model="held"))
        await upstream.wait_for_calls(1)
        upstream.scripts["held"] = Script()
        follower = await gateway.ask("the question", model="held")
        assert (follower.status, calls(upstream)) == (200, 2)
        assert not leader.done()
        go_on.set()
        assert (await leader).status == 200


async def test_a_fast_model_server_is_asked_once_too(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """An answer that is there before others have looked for it in the store is theirs."""
    answers = await asyncio.gather(*[gateway.ask("the question") for _ in range(80)])
    assert [answer.status for answer in answers] == [200] * 80
    assert upstream.call_count == 1


async def test_different_requests_do_not_share(gateway: Gateway, upstream: FakeUpstream) -> None:
    """One call for each."""
    go_on = held(upstream)
    others: list[dict[str, Any]] = [
        {"temperature": 0},
        {"seed": 1},
        {"key": "sk-other"},
        {"cache": {"namespace": "a"}},
    ]
    async with asking(gateway, {"model": "held"}, *[{"model": "held", **o} for o in others]):
        assert calls(upstream) == 5
        go_on.set()


async def test_an_invalidation_parts_those_before_from_those_after(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Who asks after it does not read the answer to who asked before it."""
    go_on = held(upstream)
    async with asking(gateway, {"model": "held"}) as (before,):
        forgotten = await gateway.post(
            {"model": "held", "dry_run": False}, path="/admin/invalidate", key=None
        )
        assert forgotten.status == 200
        async with asking(gateway, {"model": "held"}) as (after,):
            assert calls(upstream) == 2
            go_on.set()
            # The first is not stored, but was streamed on; the second is.
            assert (await before).cache_status == "stepwell; fwd=miss"
            assert (await after).cache_status == STORED
