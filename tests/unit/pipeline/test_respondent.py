"""A model server, asked for one word."""

import json
from dataclasses import replace
from typing import Any

import pytest
from support.walk import HandUpstream, Heard, completion, make_ask, make_question

from stepwell.core.entry import Usage
from stepwell.core.errors import RequestError, UpstreamBroken, UpstreamUnreachable
from stepwell.core.events import UpstreamAnswered
from stepwell.core.names import Endpoint
from stepwell.core.ports import Headers
from stepwell.pipeline.question import Ask
from stepwell.pipeline.respondent import MAX_REPLY_BYTES, Respondents
from stepwell.testing.clock import HandClock

HEADERS: Headers = (
    ("openai-organization", "org"),
    ("authorization", "Bearer sk-caller"),
    ("user-agent", "caller"),
    ("traceparent", "00-1"),
)


def ask_of(upstream: HandUpstream) -> Ask:
    ask = make_ask(make_question(), upstream)
    return replace(ask, plain_call=replace(ask.plain_call, headers=HEADERS))


def respondents(**given: Any) -> tuple[Respondents, Heard]:
    events = Heard()
    return Respondents(clock=HandClock(), events=events, **given), events


async def test_what_is_sent() -> None:
    """One short chat request, on the caller's account; what it cost is counted."""
    upstream = HandUpstream()
    reply = upstream.reply(completion("Yes."))
    chosen, events = respondents()
    assert await chosen.of(ask_of(upstream)).ask("Compare.", "A and B") == "Yes."
    (call,) = upstream.calls
    assert (call.endpoint, call.query) == (Endpoint.CHAT, "")
    assert call.headers == HEADERS[:2]
    body = json.loads(call.body)
    assert body["model"] == "model"
    assert body["temperature"] == 0
    assert body["max_tokens"] <= 16
    assert [message["content"] for message in body["messages"]] == ["Compare.", "A and B"]
    assert events.events == [UpstreamAnswered("upstream", "model", 0.0, 0.0, Usage(3, 5))]
    assert reply.closed


async def test_another_server_never_sees_the_callers_key() -> None:
    """Nor anything else of the request but what is to be judged."""
    own, judges = HandUpstream(), HandUpstream()
    judges.reply(completion("no"))
    chosen, _ = respondents(upstream=judges, model="judge-1")
    assert await chosen.of(ask_of(own)).ask("", "") == "no"
    assert own.calls == []
    (call,) = judges.calls
    assert call.headers == ()
    assert json.loads(call.body)["model"] == "judge-1"


async def test_another_model_of_the_same_server() -> None:
    """Is asked with the caller's key."""
    upstream = HandUpstream()
    upstream.reply(completion("no"))
    chosen, _ = respondents(upstream=upstream, model="judge-1")
    await chosen.of(ask_of(upstream)).ask("", "")
    assert upstream.calls[0].headers == HEADERS[:2]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"error":{}}'),
        (404, completion("yes")),
        (200, b"<html>"),
        (200, b""),
        (200, b"null"),
        (200, completion("yes" * MAX_REPLY_BYTES)),
    ],
)
async def test_replies_that_are_none(status: int, body: bytes) -> None:
    """Are an error, and the reply is closed."""
    upstream = HandUpstream()
    reply = upstream.reply(body, status=status)
    chosen, events = respondents()
    with pytest.raises(UpstreamBroken, match="judge"):
        await chosen.of(ask_of(upstream)).ask("", "")
    assert reply.closed
    assert events.events == []


@pytest.mark.parametrize(
    "error", [UpstreamUnreachable("gone", upstream="u"), RequestError("no field holds that")]
)
async def test_calls_that_fail(error: Exception) -> None:
    """Are the upstream's fault, whoever's key it was."""
    upstream = HandUpstream()
    upstream.fail(error)
    chosen, _ = respondents()
    with pytest.raises((UpstreamUnreachable, UpstreamBroken)):
        await chosen.of(ask_of(upstream)).ask("", "")


async def test_what_is_no_text() -> None:
    """A lone surrogate cannot be sent."""
    chosen, _ = respondents()
    with pytest.raises(UpstreamBroken):
        await chosen.of(ask_of(HandUpstream())).ask("", "\ud800")


def test_equal_are_those_of_one_account() -> None:
    """Whichever of a client's requests lends its connection; another's key is another's."""
    chosen, _ = respondents()
    one, same, other = ask_of(HandUpstream()), ask_of(HandUpstream()), ask_of(HandUpstream())
    other = replace(other, plain_call=replace(other.plain_call, headers=HEADERS[:1]))
    assert chosen.of(one) == chosen.of(same)
    assert hash(chosen.of(one)) == hash(chosen.of(same))
    assert chosen.of(one) != chosen.of(other)
