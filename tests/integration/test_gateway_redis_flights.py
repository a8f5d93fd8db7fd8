"""Several gateways, one Redis: the same question at the same moment costs one call.

Whoever makes it may die, sleep or be cut off: those who read along get the whole answer, once.
"""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.command import Command, running_command
from support.gateway import Gateway, question, running_gateway
from support.redis_servers import RedisServer, redis_servers

from stepwell.testing.fake_upstream import FakeUpstream, Fault, Script
from stepwell.wire import chat
from stepwell.wire.chunks import UnreadableAnswer

LEASE_SECONDS = 0.6
PROMPT = "Say a few words about cows, sheep and goats."
Start = Callable[[str], AbstractAsyncContextManager[Gateway]]


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_servers() as launcher:
        yield launcher.start("maxmemory 64mb", "maxmemory-policy volatile-lru")


@pytest.fixture
def settings(redis: RedisServer) -> dict[str, Any]:
    return {
        "stores": {"redis": {"url": redis.url}},
        "single_flight": {"lease_seconds": LEASE_SECONDS},
        "semantic": {"embedder": "off"},
    }


@pytest.fixture
def start(settings: dict[str, Any], upstream: FakeUpstream, tmp_path: Path) -> Start:
    """Start gateways on one Redis, each with a data directory of its own."""
    return lambda name: running_gateway(tmp_path / name, upstream.base_url, settings)


@pytest.fixture
async def commands(
    settings: dict[str, Any], upstream: FakeUpstream, tmp_path: Path
) -> AsyncIterator[list[Command]]:
    """Two gateways in processes of their own."""
    upstreams = {"upstreams": {"fake": {"base_url": upstream.base_url}}}
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                running_command(tmp_path / name, {**settings, **upstreams})
            )
            for name in ("one", "two")
        ]


class Stream:
    """A stream that a client reads."""

    def __init__(self, gateway: Gateway, **fields: Any) -> None:
        self.body = b""
        self.moved = asyncio.Event()
        self.task = asyncio.create_task(self._read(gateway, fields))

    async def _read(self, gateway: Gateway, fields: dict[str, Any]) -> dict[str, Any]:
        body = question(PROMPT, stream=True, **fields)
        url = f"{gateway.origin}/v1/chat/completions"
        async with gateway.http.post(url, json=body, headers=_KEY) as reply:
            assert reply.status == 200, await reply.text()
            async for piece in reply.content.iter_any():
                self.body += piece
                self.moved.set()
        return chat.assemble(self.body)

    async def events(self, count: int) -> None:
        """Return when so many events are there."""
        async with asyncio.timeout(10):
            while self.body.count(b"\n\n") < count:
                self.moved.clear()
                await self.moved.wait()


_KEY = {"Authorization": "Bearer sk-test"}


async def leader_and_follower(one: Gateway, two: Gateway, events: int = 3) -> tuple[Stream, Stream]:
    """Return two readers of one call: ``one`` makes it."""
    leader = Stream(one, model="fake-trickle")
    await leader.events(1)
    follower = Stream(two, model="fake-trickle")
    await follower.events(events)
    return leader, follower


def text(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


async def test_a_call_is_read_on_another_machine_as_it_comes(
    start: Start, upstream: FakeUpstream
) -> None:
    """Whoever came later has the beginning too, long before the end is there."""
    async with start("one") as one, start("two") as two:
        leader, follower = await leader_and_follower(one, two)
        assert not leader.task.done()
        assert text(await follower.task) == text(await leader.task)
        assert follower.body == leader.body
        assert PROMPT in text(follower.task.result())
    assert upstream.call_count == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_crowd_on_three_gateways_costs_one_call(
    start: Start, upstream: FakeUpstream, *, stream: bool
) -> None:
    async with AsyncExitStack() as stack:
        gateways = [await stack.enter_async_context(start(name)) for name in ("a", "b", "c")]
        answers = await asyncio.gather(
            *(
                gateways[number % 3].ask(PROMPT, model="fake-slow", stream=stream)
                for number in range(30)
            )
        )
    assert len({answer.body for answer in answers}) == 1
    outcomes = [answer.headers["x-cache"] for answer in answers]
    assert sorted(outcomes) == ["COLLAPSED"] * 29 + ["MISS"]
    assert upstream.call_count == 1


async def test_a_call_goes_on_for_a_reader_elsewhere(start: Start, upstream: FakeUpstream) -> None:
    """Who asked first has left."""
    async with start("one") as one, start("two") as two:
        leader, follower = await leader_and_follower(one, two, 2)
        leader.task.cancel()
        assert PROMPT in text(await follower.task)
    assert upstream.call_count == 1


async def test_a_call_ends_when_the_last_reader_has_left(
    start: Start, upstream: FakeUpstream
) -> None:
    """On whatever machine; the model server must not work for nobody."""
    async with start("one") as one, start("two") as two:
        leader, follower = await leader_and_follower(one, two, 2)
        for stream in (leader, follower):
            stream.task.cancel()
        async with asyncio.timeout(3 * LEASE_SECONDS):
            while upstream.connection_count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_a_call_that_fails_elsewhere_is_tried_once_more(
    start: Start, upstream: FakeUpstream
) -> None:
    """Nothing was handed on."""
    hold = asyncio.Event()
    upstream.scripts["held"] = Script(hold=hold, fault=Fault.NOT_HTTP)
    async with start("one") as one, start("two") as two:
        asked = [asyncio.create_task(gateway.ask(PROMPT, model="held")) for gateway in (one, two)]
        await asyncio.sleep(0.3)
        assert upstream.call_count == 1
        upstream.scripts["held"] = Script()
        hold.set()
        assert sorted([(await task).status for task in asked]) == [200, 502]
    assert upstream.call_count == 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_leader_that_is_gone_is_replaced(
    commands: list[Command], upstream: FakeUpstream, how: signal.Signals
) -> None:
    """Within the lease; and no byte is lost or doubled."""
    one, two = commands
    leader, follower = await leader_and_follower(one, two)
    one.signal(how)
    async with asyncio.timeout(10):
        answer = await follower.task
    assert text(answer).endswith(f"echo: {PROMPT}")
    assert follower.body.count(b"[DONE]") == 1
    assert upstream.call_count == 2
    if how is signal.SIGKILL:
        with pytest.raises(aiohttp.ClientError):
            await leader.task
    else:
        one.signal(signal.SIGCONT)
        assert text(await leader.task) == text(answer)
    assert (await two.ask(PROMPT, model="fake-trickle", stream=True)).headers["x-cache"] == "HIT"


async def test_half_of_one_answer_is_not_followed_by_half_of_another(
    commands: list[Command], upstream: FakeUpstream
) -> None:
    """A stream ends with an error; who has had nothing yet gets an answer, whole."""
    texts = (f"{word} is the answer, and no other is." for word in ("This", "That", "Neither"))
    upstream.scripts["fickle"] = Script(say=lambda _: next(texts), event_delay_seconds=0.1)
    one, two = commands
    leader = Stream(one, model="fickle")
    await leader.events(1)
    follower = Stream(two, model="fickle")
    await follower.events(3)
    whole = asyncio.create_task(two.ask(PROMPT, model="fickle"))
    await asyncio.sleep(0.1)
    one.signal(signal.SIGKILL)
    async with asyncio.timeout(10):
        answer = await whole
        with pytest.raises(UnreadableAnswer):
            await follower.task
    assert b"a second call is answered otherwise" in follower.body
    assert text(json.loads(answer.body)) == "Neither is the answer, and no other is."
    with pytest.raises(aiohttp.ClientError):
        await leader.task


async def test_what_others_did_not_spend_is_saved(start: Start, upstream: FakeUpstream) -> None:
    """On whatever machine they asked."""
    async with start("one") as one, start("two") as two:
        leader, follower = await leader_and_follower(one, two)
        await asyncio.gather(leader.task, follower.task)
        async with asyncio.timeout(10):
            while "stepwell_saved_tokens_total" not in (page := await metrics(two)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert re.search(r"^stepwell_saved_tokens_total\{.*\} [1-9]", page, re.MULTILINE)


async def metrics(gateway: Gateway) -> str:
    return (await gateway.get("/metrics")).body.decode()


async def test_a_leader_that_is_gone_before_it_began_is_replaced(
    commands: list[Command], upstream: FakeUpstream
) -> None:
    one, two = commands
    leader = asyncio.create_task(one.ask(PROMPT, model="fake-slow"))
    await upstream.wait_for_calls(1)
    follower = asyncio.create_task(two.ask(PROMPT, model="fake-slow"))
    await asyncio.sleep(0.2)
    one.signal(signal.SIGKILL)
    async with asyncio.timeout(10):
        answer = await follower
    assert text(json.loads(answer.body)).endswith(f"echo: {PROMPT}")
    assert upstream.call_count == 2
    with pytest.raises(aiohttp.ClientError):
        await leader


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_redis_that_fails_on_the_way_breaks_no_answer(
    start: Start, redis: RedisServer, upstream: FakeUpstream, how: str
) -> None:
    """Each goes on by itself."""
    async with start("one") as one, start("two") as two:
        leader, follower = await leader_and_follower(one, two)
        getattr(redis, how)()
        answers = [text(await leader.task), text(await follower.task)]
        assert answers[0] == answers[1]
        assert answers[0].endswith(f"echo: {PROMPT}")
        assert follower.body.count(b"[DONE]") == 1
        assert upstream.call_count == 2
        getattr(redis, {"pause": "resume", "kill": "start"}[how])()
