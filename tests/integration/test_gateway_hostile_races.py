"""Moments between two steps of the event loop in which somebody leaves and somebody comes."""

from support.walk import (
    STREAM_WITH_USAGE,
    HandUpstream,
    Heard,
    make_ask,
    make_exact,
    make_flights,
    make_question,
    make_runner,
    settle,
    stream_of,
)

from stepwell.core.events import Result
from stepwell.pipeline.served import Body
from stepwell.testing.clock import HandClock


async def test_who_comes_as_the_last_one_leaves_does_not_join_the_call_that_is_stopped() -> None:
    """It gets a whole answer by a call of its own, not the broken part of the other's."""
    clock, events, upstream = HandClock(), Heard(), HandUpstream()
    exact = make_exact(clock, events)
    flights = make_flights(exact, clock=clock, events=events)
    runner = make_runner(exact, flights, clock=clock, events=events)
    words = stream_of("Yes", "!")
    first, second = (upstream.reply(form=STREAM_WITH_USAGE.form) for _ in range(2))
    first.say(words[0])
    second.say(*words)
    second.end()
    streamed = make_ask(make_question(shape=STREAM_WITH_USAGE), upstream)

    leaving = await runner.answer(streamed)
    assert isinstance(leaving.body, Body)
    leaving.body.close()
    served = await runner.answer(streamed)
    assert (served.result, len(upstream.calls)) == (Result.MISS, 2)
    assert isinstance(served.body, Body)
    assert b"".join([chunk async for chunk in served.body.chunks]) == b"".join(words)
    await settle()
    assert first.closed
    assert len(flights) == 0
