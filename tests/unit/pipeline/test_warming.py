"""What model servers read behind answers from the cache."""

import asyncio
from dataclasses import replace

import orjson
import pytest
from support.walk import HandUpstream, Heard, make_ask, make_question, settle

from stepwell.core.entry import Answer, Usage
from stepwell.core.errors import UpstreamUnreachable
from stepwell.core.events import Event, NotWarmed, Warmed
from stepwell.core.names import Endpoint, Form
from stepwell.pipeline import warming
from stepwell.pipeline.question import Ask
from stepwell.pipeline.warming import MAX_WAITING, Warming, WarmingRules
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry

MESSAGES = [{"role": "user", "content": "What is warm? " * 40}]
ENTRY = replace(
    make_entry(),
    created_at=0.0,
    answer=Answer(Form.JSON, b'{"choices":[{"message":{"role":"assistant","content":"Tea."}}]}'),
)
READ = {"choices": [], "usage": {"prompt_tokens": 200, "completion_tokens": 1}}


class House:
    """A warming and what is around it."""

    def __init__(self, rules: WarmingRules | None = None) -> None:
        self.clock = HandClock()
        self.events = Heard()
        self.upstream = HandUpstream()
        self.busy = 0
        self.warming = Warming(
            {"upstream": rules or WarmingRules(10_000, min_tokens=50)},
            in_flight=lambda _: self.busy,
            clock=self.clock,
            events=self.events,
        )

    def ask(self, endpoint: Endpoint = Endpoint.CHAT) -> Ask:
        question = make_question()
        question.endpoint = endpoint
        ask = make_ask(question, self.upstream)
        body = orjson.dumps({"model": "m", "messages": MESSAGES, "max_tokens": 99})
        return replace(ask, plain_call=replace(ask.plain_call, body=body))

    async def warmed(self) -> list[Event]:
        """Wait until all that was begun has come to something; return what."""
        async with asyncio.timeout(5):
            while self.warming.waiting:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return [*self.events.of(Warmed), *self.events.of(NotWarmed)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "IDLE_SECONDS", 0.01)


async def test_an_idle_server_reads_the_conversation() -> None:
    house = House()
    house.upstream.reply(orjson.dumps(READ))
    house.warming.served(house.ask(), ENTRY, reworded=False)
    assert await house.warmed() == [Warmed("upstream", Usage(200, 1))]
    (call,) = house.upstream.calls
    sent = orjson.loads(call.body)
    assert sent["max_tokens"] == 1
    assert [message["content"] for message in sent["messages"]][1:] == ["Tea.", "."]


async def test_waits_while_the_server_has_something_to_do() -> None:
    house = House()
    house.busy = 1
    house.warming.served(house.ask(), ENTRY, reworded=True)
    await asyncio.sleep(0.05)
    assert not house.upstream.calls
    house.busy = 0
    house.upstream.reply(orjson.dumps(READ))
    assert [type(one) for one in await house.warmed()] == [Warmed]


async def test_not_for_ever() -> None:
    house = House()
    house.busy = 1
    house.warming.served(house.ask(), ENTRY, reworded=True)
    await asyncio.sleep(0.03)
    house.clock.seconds += 60
    assert await house.warmed() == [NotWarmed("upstream", "busy")]


async def test_within_a_budget() -> None:
    house = House(WarmingRules(200, min_tokens=50))
    house.upstream.reply(orjson.dumps(READ))
    for _ in range(2):
        house.warming.served(house.ask(), ENTRY, reworded=True)
    outcomes = await house.warmed()
    assert outcomes == [Warmed("upstream", Usage(200, 1)), NotWarmed("upstream", "over-budget")]


async def test_the_newest_count() -> None:
    house = House()
    house.busy = 1
    for _ in range(MAX_WAITING + 2):
        house.warming.served(house.ask(), ENTRY, reworded=True)
        await settle()
    assert house.events.of(NotWarmed) == [NotWarmed("upstream", "crowded")] * 2
    assert house.warming.waiting == MAX_WAITING
    await house.warming.aclose()
    assert house.warming.waiting == 0


async def test_a_failure_is_nobodys() -> None:
    house = House()
    house.upstream.fail(UpstreamUnreachable("gone", upstream="upstream"))
    house.warming.served(house.ask(), ENTRY, reworded=True)
    assert await house.warmed() == [NotWarmed("upstream", "failed")]
    house.upstream.reply(b"{}", status=500)
    house.warming.served(house.ask(), ENTRY, reworded=True)
    assert await house.warmed() == [NotWarmed("upstream", "failed")] * 2


async def test_not_what_the_server_has_just_read_itself() -> None:
    house = House()
    fresh = replace(ENTRY, created_at=house.clock.now() - 10)
    house.warming.served(house.ask(), fresh, reworded=False)
    assert house.warming.waiting == 0
    house.warming.served(house.ask(), fresh, reworded=True)  # other words it has not read
    assert house.warming.waiting == 1
    await house.warming.aclose()


async def test_not_what_is_short_or_no_conversation_or_another_servers() -> None:
    house = House(WarmingRules(10_000, min_tokens=5_000))
    house.warming.served(house.ask(), ENTRY, reworded=True)
    house = House()
    house.warming.served(house.ask(endpoint=Endpoint.COMPLETIONS), ENTRY, reworded=True)
    unread = replace(ENTRY, answer=Answer(Form.JSON, b"{}"))
    house.warming.served(house.ask(), unread, reworded=True)
    others = Warming({}, in_flight=lambda _: 0, clock=house.clock, events=house.events)
    others.served(house.ask(), ENTRY, reworded=True)
    assert house.warming.waiting == others.waiting == 0
    assert not house.upstream.calls


async def test_not_again_while_the_server_has_it() -> None:
    """Of a question that is asked all the time, one hit a minute has it read."""
    house = House()
    ask = house.ask()
    assert house.warming.due_at(ask.question, ENTRY) == ENTRY.created_at + 60
    for number in (1, 2):
        house.upstream.reply(orjson.dumps(READ))
        house.warming.served(ask, ENTRY, reworded=False)
        assert len(await house.warmed()) == number
        assert house.warming.due_at(ask.question, ENTRY) == house.clock.now() + 60
        house.warming.served(ask, ENTRY, reworded=False)
        assert house.warming.waiting == 0
        house.clock.seconds += 60


async def test_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "MAX_READ", 2)
    house = House()
    asks = [replace(house.ask(), question=make_question(name)) for name in ("one", "two", "three")]
    for number, ask in enumerate(asks, 1):
        house.upstream.reply(orjson.dumps(READ))
        house.warming.served(ask, ENTRY, reworded=False)
        assert len(await house.warmed()) == number
    due = [house.warming.due_at(ask.question, ENTRY) for ask in asks]
    assert due == [ENTRY.created_at + 60, house.clock.now() + 60, house.clock.now() + 60]
