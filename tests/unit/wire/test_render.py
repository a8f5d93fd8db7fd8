"""Stored answers in the shapes callers ask for."""

import json

import pytest

from stepwell.core.entry import Answer
from stepwell.core.names import Endpoint, Form
from stepwell.wire.chunks import JsonObject
from stepwell.wire.render import UsageFilter, render
from stepwell.wire.shape import Shape

JSON = Shape(Form.JSON)
SSE = Shape(Form.SSE, include_usage=False)
SSE_WITH_USAGE = Shape(Form.SSE, include_usage=True)

USAGE = b'{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}'
CHOICE = b'{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":"stop"}'
PLAIN = b'data: {"id":"c","choices":[' + CHOICE + b"]}\n\n"
WITH_NULL = b'data: {"id":"c","choices":[' + CHOICE + b'],"usage":null}\n\n'
USAGE_CHUNK = b'data: {"id":"c","choices":[],"usage":' + USAGE + b"}\n\n"
DONE = b"data: [DONE]\n\n"

CHAT_ANSWER: JsonObject = {
    "id": "c",
    "object": "chat.completion",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    ],
    "usage": json.loads(USAGE),
}
RESPONSE: JsonObject = {"id": "r", "object": "response", "status": "completed", "output": []}


def stored(form: Form, body: bytes | JsonObject) -> Answer:
    """Return an answer; an object is written with white space, as no renderer of ours does."""
    return Answer(form, body if isinstance(body, bytes) else json.dumps(body, indent=1).encode())


@pytest.mark.parametrize("endpoint", list(Endpoint))
@pytest.mark.parametrize("body", [b'{"a": 1 }', b"not json", b""])
def test_json_as_json(endpoint: Endpoint, body: bytes) -> None:
    """JSON asked for as JSON is the very bytes the model server sent."""
    assert render(endpoint, stored(Form.JSON, body), JSON) == body


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.COMPLETIONS])
def test_stream_with_usage_as_it_is(endpoint: Endpoint) -> None:
    """A stream with usage, asked for with usage, is the very bytes the model server sent."""
    sse = b": ping\r\n\r\n" + WITH_NULL + USAGE_CHUNK + DONE
    assert render(endpoint, stored(Form.SSE, sse), SSE_WITH_USAGE) == sse


def test_usage_is_cut_out() -> None:
    """Asked for without usage, the stream is what the server would have sent without it."""
    sse = b": ping\r\n\r\n" + WITH_NULL + USAGE_CHUNK + DONE
    assert render(Endpoint.CHAT, stored(Form.SSE, sse), SSE) == b": ping\r\n\r\n" + PLAIN + DONE


def test_stream_without_usage() -> None:
    """Without usage there is a stream without usage, and nothing else."""
    answer = stored(Form.SSE, PLAIN + DONE)
    assert render(Endpoint.CHAT, answer, SSE) == PLAIN + DONE
    assert render(Endpoint.CHAT, answer, SSE_WITH_USAGE) is None
    assert render(Endpoint.CHAT, answer, JSON) is None


def test_usage_in_a_chunk_with_choices() -> None:
    """Servers that give the usage in their last choice's chunk have given it."""
    sse = PLAIN.replace(b"]}\n", b'],"usage":' + USAGE + b"}\n") + DONE
    answer = stored(Form.SSE, sse)
    assert render(Endpoint.CHAT, answer, SSE_WITH_USAGE) == sse
    assert render(Endpoint.CHAT, answer, SSE) == sse
    body = render(Endpoint.CHAT, answer, JSON)
    assert body is not None
    assert json.loads(body) == CHAT_ANSWER


def test_stream_as_json() -> None:
    """A stream with usage makes a JSON answer."""
    body = render(Endpoint.CHAT, stored(Form.SSE, WITH_NULL + USAGE_CHUNK + DONE), JSON)
    assert body is not None
    assert json.loads(body) == CHAT_ANSWER


def test_json_as_stream() -> None:
    """JSON makes a stream, with usage if asked for."""
    answer = stored(Form.JSON, CHAT_ANSWER)
    with_usage = render(Endpoint.CHAT, answer, SSE_WITH_USAGE)
    without = render(Endpoint.CHAT, answer, SSE)
    assert with_usage is not None
    assert without is not None
    assert USAGE in with_usage
    assert b"usage" not in without
    assert with_usage.endswith(DONE)
    assert without.endswith(DONE)


def test_json_without_usage() -> None:
    """JSON without usage makes a stream without, but none with."""
    answer = stored(Form.JSON, CHAT_ANSWER | {"usage": None})
    assert render(Endpoint.CHAT, answer, SSE) is not None
    assert render(Endpoint.CHAT, answer, SSE_WITH_USAGE) is None


def test_completions() -> None:
    """Text completions go both ways."""
    choice = {"index": 0, "text": "a b", "logprobs": None, "finish_reason": "stop"}
    body = CHAT_ANSWER | {"object": "text_completion", "choices": [choice]}
    sse = render(Endpoint.COMPLETIONS, stored(Form.JSON, body), SSE_WITH_USAGE)
    assert sse is not None
    back = render(Endpoint.COMPLETIONS, stored(Form.SSE, sse), JSON)
    assert back is not None
    assert json.loads(back) == body


def test_responses() -> None:
    """Responses go both ways, and their streams are never touched."""
    sse = render(Endpoint.RESPONSES, stored(Form.JSON, RESPONSE), Shape(Form.SSE))
    assert sse is not None
    back = render(Endpoint.RESPONSES, stored(Form.SSE, sse), JSON)
    assert back is not None
    assert json.loads(back) == RESPONSE
    live = b'event: response.created\ndata: {"response":{"usage":null},"usage":null}\n\n'
    assert render(Endpoint.RESPONSES, stored(Form.SSE, live), Shape(Form.SSE)) == live


@pytest.mark.parametrize("endpoint", list(Endpoint))
@pytest.mark.parametrize(
    ("form", "body", "shape"),
    [
        (Form.JSON, b"<html></html>", SSE),
        (Form.JSON, b"[]", SSE),
        (Form.JSON, b'{"error":{"message":"boom"}}', SSE),
        (Form.JSON, b'{"status":"completed","output":"x","choices":"x"}', SSE),
        (Form.SSE, b"<html></html>", JSON),
        (Form.SSE, WITH_NULL + USAGE_CHUNK, JSON),
        (Form.SSE, b"event: error\ndata: {}\n\n" + DONE, JSON),
        (Form.JSON, b'{"status":"completed","x":' + b"[" * 500 + b"]" * 500 + b"}", SSE),
    ],
)
def test_what_cannot_be_read(endpoint: Endpoint, form: Form, body: bytes, shape: Shape) -> None:
    """What is no answer of the endpoint is rendered in no other form."""
    assert render(endpoint, Answer(form, body), shape) is None


def test_filter() -> None:
    """A live stream loses its usage, whatever its chunks; comments pass at once."""
    live = UsageFilter()
    assert live.feed(b": ping\n\n" + WITH_NULL[:20]) == b": ping\n\n"
    assert live.feed(WITH_NULL[20:-1]) == b""
    assert live.feed(b"\n" + USAGE_CHUNK + DONE + b"data: cut") == PLAIN + DONE
    assert live.finish() == b"data: cut"
