"""One request is counted once, with what is known of it when it ends."""

from dataclasses import replace

from support.walk import STREAM, Heard, make_question

from stepwell.core.entry import Usage
from stepwell.core.events import RequestEnded, Result, StageTimed
from stepwell.core.names import Endpoint, Form, LayerName, Tier
from stepwell.core.outcome import Hit
from stepwell.pipeline.exchange import Exchange
from stepwell.pipeline.served import Served
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_namespace

REFUSED = RequestEnded(
    result=Result.REJECTED,
    layer="none",
    request_class="none",
    endpoint="chat/completions",
    model="none",
    upstream="none",
    status=401,
    stream=False,
    seconds=2.0,
    first_byte_seconds=2.0,
    usage=Usage(),
    saved_seconds=0.0,
    trail="wrong key",
    tenant="",
)


def test_a_request_of_which_nothing_is_known() -> None:
    """Refused before it was read."""
    clock, events = HandClock(), Heard()
    exchange = Exchange(Endpoint.CHAT, clock=clock, events=events)
    clock.seconds += 2
    exchange.end(Result.REJECTED, status=401, trail="wrong key")
    assert events.events == [REFUSED]


def test_a_request_that_was_answered() -> None:
    """What was served says most of it."""
    clock, events = HandClock(), Heard()
    exchange = Exchange(Endpoint.CHAT, clock=clock, events=events)
    exchange.question = make_question(shape=STREAM)
    exchange.served = Served(
        result=Result.HIT,
        outcome=Hit(make_entry(), LayerName.EXACT, Tier.MEMORY),
        status=200,
        form=Form.SSE,
        body=b"",
        usage=Usage(7, 11),
        saved_seconds=0.5,
        trail=("exact: hit in memory",),
    )
    assert not exchange.has_begun
    clock.seconds += 1
    exchange.began()
    clock.seconds += 2
    exchange.began()
    assert exchange.has_begun
    exchange.end()
    expected = RequestEnded(
        result=Result.HIT,
        layer="exact",
        request_class="general",
        endpoint="chat/completions",
        model="model",
        upstream="upstream",
        status=200,
        stream=True,
        seconds=3.0,
        first_byte_seconds=1.0,
        usage=Usage(7, 11),
        saved_seconds=0.5,
        trail="exact: hit in memory",
        tenant=make_namespace("tenant").hex(),
    )
    exchange.end(Result.CANCELLED, status=499, trail="left")
    assert events.events == [
        expected,
        replace(
            expected,
            result=Result.CANCELLED,
            layer="none",
            status=499,
            trail="exact: hit in memory · left",
        ),
    ]


def test_a_request_that_ended_before_anything_was_served_is_an_error() -> None:
    """Unless somebody says otherwise."""
    events = Heard()
    Exchange(Endpoint.CHAT, clock=HandClock(), events=events).end()
    (ended,) = events.events
    assert isinstance(ended, RequestEnded)
    assert (ended.result, ended.status) == (Result.ERROR, 0)


def test_stages_follow_each_other() -> None:
    """Each is timed from the end of the one before."""
    clock, events = HandClock(), Heard()
    exchange = Exchange(Endpoint.CHAT, clock=clock, events=events)
    for seconds, name in ((1, "receive"), (2, "prepare")):
        clock.seconds += seconds
        exchange.stage(name)
    assert events.events == [StageTimed("receive", 1.0), StageTimed("prepare", 2.0)]
