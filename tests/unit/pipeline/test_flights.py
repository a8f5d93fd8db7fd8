"""A flight among workers: who makes the call, and what happens when the neighbour's goes wrong."""

import asyncio
import json
import re
from collections import deque
from dataclasses import dataclass
from functools import partial

import pytest
from support.walk import (
    JSON,
    STREAM,
    STREAM_WITH_USAGE,
    HandUpstream,
    Heard,
    completion,
    key_of,
    make_ask,
    make_exact,
    make_flights,
    make_question,
    settle,
    stream_of,
)

from stepwell.core.entry import SourceValue
from stepwell.core.errors import UpstreamBroken
from stepwell.core.events import LeaderLost
from stepwell.core.names import CacheKey, Form, Position
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.circle import Followed, Lead
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.leg import BorrowedLeg
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_namespace
from stepwell.wire import chat
from stepwell.wire.controls import Directives
from stepwell.wire.shape import Shape

ANSWER = completion()


class HandCircle:
    """Another worker that does as the test says; no process, no lock."""

    def __init__(self, clock: HandClock) -> None:
        self.says: deque[Followed] = deque()
        """What following comes to, in order; when there is no more, the key is ours."""
        self.claimed: list[CacheKey] = []
        self.released: list[CacheKey] = []
        self.told: list[bytes] = []
        """What is handed on of a stream before its leader is lost."""
        self.seconds_each = 0.0
        """How long each attempt takes."""
        self._clock = clock

    async def claim(self, key: CacheKey) -> "Lead | HandCircle":
        if self.says:
            return self
        self.claimed.append(key)
        return Lead(partial(self.released.append, key))

    async def follow(self, leg: BorrowedLeg, *, patience_seconds: float) -> Followed:
        self._clock.seconds += self.seconds_each
        followed = self.says.popleft()
        if self.told:
            leg.begin(Head(200, (), Form.SSE))
            for event in self.told:
                await leg.extend(event)
            self.told = []
        if followed is Followed.TO_THE_END:
            leg.begin(Head(200, (), Form.JSON))
            await leg.extend(ANSWER)
            await leg.land(Landed(None))
        return followed


@dataclass
class Air:
    """Flights, and everything around them."""

    clock: HandClock
    exact: ExactLayer
    circle: HandCircle
    events: Heard
    flights: Flights
    upstream: HandUpstream

    def launch(self, shape: Shape = JSON, directives: Directives | None = None) -> Flight:
        """Start a call that others may share."""
        question = make_question(shape=shape, directives=directives)
        return self.flights.launch(make_ask(question, self.upstream), may_fill=True, share=True)


@pytest.fixture
def air() -> Air:
    """Flights of a worker that has a neighbour."""
    clock, events = HandClock(), Heard()
    exact = make_exact(clock, events)
    circle = HandCircle(clock)
    flights = make_flights(
        exact,
        clock=clock,
        events=events,
        circles=(circle,),
        max_wait_seconds=10.0,
    )
    return Air(clock, exact, circle, events, flights, HandUpstream())


KEY = key_of(make_question())


async def test_who_has_the_key_makes_the_call(air: Air) -> None:
    """And lets the key go when the answer is stored."""
    flight = air.launch()
    await settle()
    assert air.circle.claimed == [KEY]
    assert air.circle.released == []
    air.upstream.reply(ANSWER)
    await flight.join().landed()
    await settle()
    assert (air.circle.released, flight.borrowed, len(air.flights)) == ([KEY], False, 0)


async def test_a_key_is_let_go_however_the_call_ends(air: Air) -> None:
    """Failed or stopped."""
    failing, stopped = air.launch(), air.launch()
    reader = stopped.join()
    await settle()
    air.upstream.fail(UpstreamBroken("broke", upstream="upstream"))
    await settle()
    reader.leave()
    await settle()
    assert isinstance(failing.end, Crashed)
    assert isinstance(stopped.end, Crashed)
    assert air.circle.released == [KEY, KEY]


async def test_a_neighbours_call_is_read(air: Air) -> None:
    """None of our own, and none of ours for others to read."""
    air.circle.says.append(Followed.TO_THE_END)
    flight = air.launch()
    assert await flight.join().landed() == Landed(None)
    assert (flight.body(), flight.borrowed) == (ANSWER, True)
    assert air.upstream.calls == []


async def test_what_the_neighbour_has_just_stored_is_used(air: Air) -> None:
    """It was not there when the layers were asked, and is when the key is ours."""
    air.circle.says.append(Followed.NOT_THERE)
    flight = air.launch()
    entry = make_entry(body=ANSWER)
    assert air.exact.keep(entry)
    assert await flight.join().landed() == Landed(entry)
    assert (flight.body(), flight.borrowed) == (ANSWER, True)
    assert flight.head == Head(200, (("content-type", "application/json"),), Form.JSON)
    assert air.upstream.calls == []
    await settle()
    assert air.circle.released == [KEY]


@pytest.mark.parametrize(
    ("shape", "directives", "body", "form"),
    [
        (JSON, Directives(min_fresh_seconds=1e6), ANSWER, Form.JSON),
        (
            STREAM_WITH_USAGE,
            Directives(),
            b"".join(event for event in stream_of("a") if b"total_tokens" not in event),
            Form.SSE,
        ),
    ],
    ids=["not fresh enough", "without the usage asked for"],
)
async def test_what_is_there_but_does_not_do_is_asked_for(
    air: Air, shape: Shape, directives: Directives, body: bytes, form: Form
) -> None:
    """The layers said so already; having the key changes nothing."""
    air.exact.keep(make_entry(body=body, form=form))
    air.launch(shape, directives)
    await settle()
    assert len(air.upstream.calls) == 1


@pytest.mark.parametrize(
    ("says", "calls"),
    [
        ([Followed.NOT_THERE] * 3, 1),
        ([Followed.LOST] * 3, 1),
        ([Followed.FAILED], 1),
        ([Followed.UNREACHED], 1),
        ([Followed.UNREACHED, Followed.TO_THE_END], 0),
        ([Followed.UNREACHED, Followed.UNREACHED, Followed.TO_THE_END], 1),
        ([Followed.OUTDATED, Followed.NOT_THERE], 1),
        ([Followed.LOST, Followed.FAILED, Followed.TO_THE_END], 0),
    ],
    ids=str,
)
async def test_another_way_to_an_answer(air: Air, says: list[Followed], calls: int) -> None:
    """A neighbour without the answer, or that failed once, costs a call at most."""
    air.circle.says.extend(says)
    flight = air.launch()
    if calls:
        await air.upstream.wait_for_calls(1)
        air.upstream.reply(ANSWER)
    await flight.join().landed()
    assert (flight.body(), flight.borrowed) == (ANSWER, calls == 0)
    assert len(air.upstream.calls) == calls


async def test_two_neighbours_that_fail_are_a_failure(air: Air) -> None:
    """Whoever asks a third time is a request of its own."""
    air.circle.says.extend([Followed.FAILED, Followed.FAILED])
    flight = air.launch()
    with pytest.raises(UpstreamBroken):
        await flight.join().landed()
    assert air.upstream.calls == []


async def test_nobody_waits_for_a_neighbour_for_ever(air: Air) -> None:
    """Past the time allowed the call is made without the key."""
    air.circle.says.extend([Followed.NOT_THERE] * 100)
    air.circle.seconds_each = 4.0
    air.launch()
    await air.upstream.wait_for_calls(1)
    assert len(air.circle.says) == 97
    assert air.circle.claimed == []


async def test_who_may_join(air: Air) -> None:
    """Who asks for the same, knows of nothing newer, and while all of it is there."""
    assert air.flights.to_join(make_question()) is None
    flight = air.launch()
    assert air.flights.to_join(make_question()) is flight
    assert air.flights.to_join(make_question("another")) is None
    assert air.flights.to_join(make_question(bypass="store")) is None
    assert air.flights.to_join(make_question(sources=(SourceValue("faq", "v1"),))) is None

    await air.exact.move_source(make_namespace("another"), SourceValue("faq", "v1"))
    assert air.flights.to_join(make_question()) is flight

    flight.kept_whole = False
    assert air.flights.to_join(make_question()) is None


async def test_a_flight_is_as_of_its_launch(air: Air) -> None:
    """However long the neighbour kept it waiting: what was invalidated meanwhile counts."""
    await air.exact.move_source(make_namespace("tenant"), SourceValue("faq", "v1"))
    flight = air.launch()
    await air.exact.move_source(make_namespace("tenant"), SourceValue("faq", "v2"))
    await asyncio.sleep(0)
    assert (flight.made.as_of, flight.made.last_invalidation) == (Position(1), Position(0))


async def test_a_stream_is_asked_for_its_usage_only_if_it_may_be_stored(air: Air) -> None:
    """Who gets the model server's answer to itself gets what it asked for."""
    for may_fill in (True, False):
        ask = make_ask(make_question(shape=STREAM), air.upstream)
        air.flights.launch(ask, may_fill=may_fill, share=False)
    await settle()
    assert [b"stream_options" in call.body for call in air.upstream.calls] == [True, False]


def of_call(number: int, *words: str) -> list[bytes]:
    """Return a stream under an id of its own."""
    named = b'{"id":"%d",' % number
    return [event.replace(b'{"choices"', named + b'"choices"') for event in stream_of(*words)]


def chunks_of(body: bytes) -> list[object]:
    return [json.loads(data) for data in re.findall(rb"data: (\{.*)", body)]


async def test_a_stream_whose_leader_is_lost_is_gone_on_with(air: Air) -> None:
    """By a call of our own, and is whole, under the first one's id; then it is stored."""
    events = of_call(1, "a", "b", "c")
    air.circle.says.append(Followed.LOST)
    air.circle.told = events[:2]
    flight = air.launch(STREAM_WITH_USAGE)
    reader = flight.join()
    await air.upstream.wait_for_calls(1)
    air.upstream.reply(b"".join(of_call(2, "a", "b", "c")), form=Form.SSE)
    landed = await reader.landed()
    assert chunks_of(flight.body()) == chunks_of(b"".join(events))
    assert landed.entry is not None
    assert landed.entry.answer.body == flight.body()
    assert not flight.borrowed
    assert air.events.of(LeaderLost) == [LeaderLost(midway=True)]


async def test_a_stream_that_cannot_be_gone_on_with_has_broken(air: Air) -> None:
    """The second call is answered otherwise: half of each would be a wrong answer."""
    air.circle.says.append(Followed.LOST)
    air.circle.told = of_call(1, "a", "b")[:3]
    flight = air.launch(STREAM_WITH_USAGE)
    await air.upstream.wait_for_calls(1)
    air.upstream.reply(b"".join(of_call(2, "x", "y")), form=Form.SSE)
    with pytest.raises(UpstreamBroken, match="cannot be gone on with"):
        await flight.join().landed()
    await settle()
    assert air.circle.released == [KEY]
    assert not air.exact.holds(KEY)


async def test_what_was_stored_goes_on_for_a_leader_that_was_lost(air: Air) -> None:
    """It had the answer, and died before it said so."""
    events = of_call(1, "a", "b", "c")
    air.circle.says.append(Followed.LOST)
    air.circle.told = events[:2]
    entry = make_entry(body=b"".join(of_call(2, "a", "b", "c")), form=Form.SSE)
    flight = air.launch(STREAM_WITH_USAGE)
    assert air.exact.keep(entry)
    assert await flight.join().landed() == Landed(entry)
    assert chunks_of(flight.body()) == chunks_of(b"".join(events))
    assert air.upstream.calls == []


async def test_a_stream_is_gone_on_with_by_what_is_none(air: Air) -> None:
    """Who asks next, or asked and stored it, wanted the other form."""
    air.circle.says.append(Followed.LOST)
    air.circle.told = of_call(1, "Y")[:2]
    flight = air.launch(STREAM_WITH_USAGE)
    assert air.exact.keep(make_entry(body=completion("Yes.")))
    landed = await flight.join().landed()
    assert landed.entry is not None
    assert chat.assemble(flight.body())["choices"][0]["message"]["content"] == "Yes."
    assert flight.body().count(b'"role"') == 1
    assert air.upstream.calls == []
