"""From a parsed request to a question: what is asked, of whom, for whom, under which rules."""

import json
from typing import Any

import pytest
from support.walk import JSON, STREAM, STREAM_WITH_USAGE, HandUpstream

from stepwell.core.entry import SourceValue
from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint
from stepwell.keys.cache_key import KeyScheme
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.intake import Intake
from stepwell.pipeline.question import Ask
from stepwell.pipeline.targets import Target, Targets
from stepwell.policy.classes import BUILT_IN_CLASSES
from stepwell.policy.routing import Route
from stepwell.wire.controls import Directives
from stepwell.wire.shape import Shape

SECRET = bytes(range(32))
TENANT = Tenant("token:sk-a", SECRET)
ROUTES = [Route("code", model="coder")]


def make_intake(*, takes_callers_key: bool = True) -> Intake:
    """Return an intake for one model server and one more header field."""
    scheme = KeyScheme("upstream")
    target = Target(HandUpstream(), scheme, ("model", "coder"), takes_callers_key)
    return Intake(Targets([target]), BUILT_IN_CLASSES, ROUTES, extra_headers=["x-team"])


def take(
    fields: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    *,
    tenant: Tenant | None = TENANT,
    query: str = "",
    intake: Intake | None = None,
) -> Ask:
    """Take in a chat request."""
    body = {
        "model": "model",
        "messages": [{"role": "user", "content": "Hm."}],
        **(fields or {}),
    }
    return (intake or make_intake()).take(Endpoint.CHAT, body, headers or {}, tenant, query=query)


def sent(ask: Ask, *, plain: bool = False) -> dict[str, Any]:
    """Return the body that goes to the model server."""
    body: dict[str, Any] = json.loads((ask.plain_call if plain else ask.call).body)
    return body


def test_a_plain_request() -> None:
    """It is looked up for its tenant, in the class of those nothing is known about."""
    ask = take()
    question = ask.question
    assert (question.model, question.shape, question.upstream) == ("model", JSON, "upstream")
    assert question.namespace == TENANT.namespace()
    assert question.key is not None
    assert (question.bypass, question.directives) == (None, Directives())
    assert question.request_class.name == "general"
    assert question.class_by.startswith("default: ")
    assert ask.call is ask.plain_call


def test_equal_requests_make_equal_questions() -> None:
    """So that a question can be remembered for the next."""
    assert take().question == take().question


def test_what_is_said_to_us_is_taken_out() -> None:
    """And kept with the question; the model server does not hear of it."""
    ask = take(
        {
            "cache": {"ttl": 5, "namespace": "n"},
            "metadata": {"stepwell_tags": "a, b", "stepwell_sources": "faq=v1"},
        },
        {"cache-control": "no-store", "x-stepwell-class": "faq"},
    )
    question = ask.question
    assert question.directives == Directives(no_store=True, ttl_seconds=5)
    assert question.namespace == TENANT.namespace("n")
    assert (question.tags, question.sources) == (("a", "b"), (SourceValue("faq", "v1"),))
    assert (question.request_class.name, question.class_by) == (
        "faq",
        "request: named by the request; level general of general, by default: no rule holds",
    )
    assert set(sent(ask)) == {"model", "messages"}


def test_what_is_said_to_us_is_not_part_of_the_key() -> None:
    """How long, under which class, with which tags: the answer is the same."""
    plain = take().question.key
    assert take({"cache": {"ttl": 5}}, {"x-stepwell-class": "faq"}).question.key == plain
    assert take({"cache": {"namespace": "n"}}).question.key != plain


def test_a_route_chooses_the_class() -> None:
    """And says which it was."""
    question = take({"model": "coder"}).question
    assert (question.request_class.name, question.class_by) == ("code", "route: routes[0]")


@pytest.mark.parametrize(
    ("fields", "headers", "tenant", "why"),
    [
        ({}, {}, None, "no API key"),
        ({}, {"x-stepwell-class": "factual"}, TENANT, "class factual"),
        ({"store": True}, {}, TENANT, "store"),
        ({"store": True}, {}, None, "no API key"),
    ],
)
def test_what_no_layer_may_answer_has_no_key(
    fields: dict[str, Any], headers: dict[str, str], tenant: Tenant | None, why: str
) -> None:
    """So that it cannot be looked up by mistake."""
    question = take(fields, headers, tenant=tenant).question
    assert (question.bypass, question.key, question.namespace) == (why, None, None)


@pytest.mark.parametrize(
    ("fields", "shape", "asks_usage", "plain_options"),
    [
        ({"stream": True}, STREAM, True, None),
        (
            {"stream": True, "stream_options": {"include_obfuscation": False}},
            STREAM,
            True,
            {"include_obfuscation": False},
        ),
        (
            {"stream": True, "stream_options": {"include_usage": True}},
            STREAM_WITH_USAGE,
            True,
            {"include_usage": True},
        ),
        ({"stream": False}, JSON, False, None),
    ],
)
def test_a_stream_is_asked_for_its_usage(
    fields: dict[str, Any],
    shape: Shape,
    plain_options: dict[str, Any] | None,
    *,
    asks_usage: bool,
) -> None:
    """So that what is stored answers in every form; the plain call is the caller's own."""
    ask = take(fields)
    assert ask.question.shape == shape
    assert sent(ask).get("stream_options", {}).get("include_usage", False) is asks_usage
    assert sent(ask, plain=True).get("stream_options") == plain_options


def test_every_shape_has_the_same_key() -> None:
    """Streamed or not, with usage or without: one answer."""
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    keys = {take(fields).question.key for fields in ({}, {"stream": True}, usage)}
    assert len(keys) == 1


def test_which_header_fields_are_sent_on() -> None:
    """Those that can change the answer are part of the key, those that say who asks are not."""
    keyed = {"openai-organization": "org", "x-team": "a"}
    passed = {"user-agent": "a", "x-request-id": "r", "authorization": "Bearer sk-a"}
    dropped = {"cookie": "c", "host": "h", "x-stepwell-tags": "t", "x-invented": "i"}
    ask = take(headers={**keyed, **passed, **dropped})
    assert dict(ask.call.headers) == {**keyed, **passed}
    plain = take().question.key
    assert take(headers=passed).question.key == plain
    for name, value in keyed.items():
        assert take(headers={name: value}).question.key != plain


def test_the_callers_key_is_sent_only_where_it_belongs() -> None:
    """Not to a model server that has a key of its own, or that knows none of ours."""
    fields = {"authorization": "Bearer sk-a"}
    ask = take(headers=fields, intake=make_intake(takes_callers_key=False))
    assert ask.call.headers == ()
    assert ask.question.key == take(headers=fields).question.key


def test_the_query_is_sent_on_and_part_of_the_key() -> None:
    """A model server may read it."""
    ask = take(query="api-version=1")
    assert ask.call.query == "api-version=1"
    assert ask.question.key != take().question.key


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"model": "nobody-has-it"}, 404),
        ({"messages": []}, 400),
        ({"cache": {"ttl": -1}}, 400),
        ({"metadata": {"stepwell_class": "mnie"}}, 400),
    ],
)
def test_what_is_wrong_is_refused(fields: dict[str, Any], status: int) -> None:
    """Before anything is looked up."""
    with pytest.raises(RequestError) as caught:
        take(fields)
    assert caught.value.status == status


def test_the_body_given_is_not_changed() -> None:
    """It belongs to the caller of this."""
    body = {
        "model": "model",
        "messages": [{"role": "user", "content": "Hm."}],
        "stream": True,
        "cache": {"ttl": 1},
    }
    before = json.dumps(body)
    make_intake().take(Endpoint.CHAT, body, {}, TENANT)
    assert json.dumps(body) == before
