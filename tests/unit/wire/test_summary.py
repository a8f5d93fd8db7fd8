"""What can be told of an answer, however odd its bytes."""

import json
from typing import Any

import pytest

from stepwell.core.entry import Answer, Usage
from stepwell.core.names import Endpoint, Form
from stepwell.wire.chunks import JsonObject
from stepwell.wire.counts import TOO_MANY
from stepwell.wire.summary import Summary, summarise

CHAT = Endpoint.CHAT
FINE = Summary(complete=True, empty=False, truncated=False, filtered=False, usage=Usage(3, 4))
USAGE: JsonObject = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def chat(message: JsonObject, finish_reason: object = "stop", **fields: Any) -> Answer:
    """Return a chat completion with one choice."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return Answer(Form.JSON, json.dumps({"choices": [choice], "usage": USAGE} | fields).encode())


def chat_stream(*data: JsonObject | str) -> Answer:
    """Return a chat stream of the given chunks, or other data."""
    lines = [item if isinstance(item, str) else json.dumps(item) for item in data]
    return Answer(Form.SSE, "".join(f"data: {line}\n\n" for line in lines).encode())


def delta(content: str, finish_reason: str | None = None, index: int = 0) -> JsonObject:
    """Return a chunk."""
    choice = {"index": index, "delta": {"content": content}, "finish_reason": finish_reason}
    return {"choices": [choice]}


USAGE_CHUNK: JsonObject = {"choices": [], "usage": USAGE}


def test_whole_answers() -> None:
    """A whole answer is complete in both forms."""
    assert summarise(CHAT, chat({"content": "Hi"})) == FINE
    stream = chat_stream(delta("Hi"), delta("", "stop"), USAGE_CHUNK, "[DONE]")
    assert summarise(CHAT, stream) == FINE


@pytest.mark.parametrize("endpoint", list(Endpoint))
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\x00",
        b"<html><body>Bad Gateway</body></html>",
        b"null",
        b"[]",
        b'"text"',
        b'{"error":{"message":"boom","type":"server_error"}}',
        b'{"object":"error","message":"boom","code":400}',
        b'{"choices":5,"output":5,"status":5}',
        b'{"choices":[5,null,{}],"output":[5,null,{}]}',
        b'{"choices":[{"message":5,"text":5,"finish_reason":["stop"]}]}',
        b'{"choices":[],"usage":{"prompt_tokens":"x"}}',
        b"data: [DONE]\n\n",
        b'data: {"error":{"message":"boom"}}\n\n',
        b'event: error\ndata: {"message":"boom"}\n\n',
        b'data: {"choices":[{"index":0,"delta":5}]}\n\ndata: [DONE]\n\n',
        b'data: {"choices":{"index":0}}\n\ndata: [DONE]\n\n',
        b"[" * 5000,
    ],
)
def test_rubbish_is_not_complete(endpoint: Endpoint, form: Form, body: bytes) -> None:
    """Whatever the bytes are there is a summary, and rubbish is not complete."""
    assert not summarise(endpoint, Answer(form, body)).complete


def test_error_with_status_200() -> None:
    """An error object is no answer, even beside choices."""
    assert not summarise(CHAT, chat({"content": "Hi"}, error={"message": "boom"})).complete


@pytest.mark.parametrize(
    "data",
    [
        [delta("Hi", "stop"), USAGE_CHUNK],
        [delta("Hi"), "[DONE]"],
        [delta("Hi", "stop"), delta("Yo", None, 1), "[DONE]"],
        [delta("Hi", "stop"), {"error": {"message": "boom"}}, "[DONE]"],
        [delta("Hi", "abort"), "[DONE]"],
        [delta("Hi", "error"), "[DONE]"],
        [delta("Hi", "insufficient_system_resource"), "[DONE]"],
        [delta("Hi", "stop"), '{"choices":[{"ind'],
        ["[DONE]"],
    ],
)
def test_streams_that_broke_off(data: list[JsonObject | str]) -> None:
    """[DONE] and a proper finish reason for every choice are both needed."""
    assert not summarise(CHAT, chat_stream(*data)).complete


def test_usage_of_a_stream_that_broke_off() -> None:
    """What was said before a stream broke off is still told."""
    assert summarise(CHAT, chat_stream(delta("Hi"), USAGE_CHUNK)).usage == Usage(3, 4)


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call"])
def test_finished(reason: str) -> None:
    """These reasons say that the model was done."""
    assert summarise(CHAT, chat({"content": "Hi"}, reason)) == FINE


def test_truncated() -> None:
    """One choice at its length limit makes the answer truncated; it is complete all the same."""
    stream = chat_stream(delta("Hi", "stop"), delta("Yo", "length", 1), "[DONE]")
    summary = summarise(CHAT, stream)
    assert (summary.complete, summary.truncated, summary.filtered) == (True, True, False)


def test_filtered() -> None:
    """One choice cut by a content filter makes the answer filtered."""
    summary = summarise(CHAT, chat({"content": ""}, "content_filter"))
    assert (summary.complete, summary.filtered, summary.empty) == (True, True, True)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hi"},
        {"content": [{"type": "text", "text": "Hi"}]},
        {"content": None, "refusal": "No"},
        {"content": None, "tool_calls": [{"id": "a"}]},
        {"content": None, "function_call": {"name": "f"}},
        {"content": "", "reasoning_content": "Hm"},
        {"content": "", "reasoning": "Hm"},
        {"content": None, "audio": {"id": "a"}},
    ],
)
def test_something_is_said(message: JsonObject) -> None:
    """Text, refusal, tool call, reasoning or sound: the answer is not empty."""
    assert not summarise(CHAT, chat(message)).empty


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": []},
        {"content": " \n"},
        {"content": [], "annotations": [{"x": 1}]},
    ],
)
def test_nothing_is_said(message: JsonObject) -> None:
    """White space, empty lists and notes about nothing are empty."""
    assert summarise(CHAT, chat(message)).empty


def test_one_choice_says_something() -> None:
    """An answer is empty only if all its choices are."""
    stream = chat_stream(delta("", "stop"), delta("Yo", "stop", 1), "[DONE]")
    assert not summarise(CHAT, stream).empty


def test_completions() -> None:
    """Text completions have their text in the choice."""
    choice = {"index": 0, "text": "Hi", "finish_reason": "stop"}
    body = json.dumps({"choices": [choice], "usage": USAGE}).encode()
    assert summarise(Endpoint.COMPLETIONS, Answer(Form.JSON, body)) == FINE
    stream = chat_stream({"choices": [choice]}, USAGE_CHUNK, "[DONE]")
    assert summarise(Endpoint.COMPLETIONS, stream) == FINE
    empty = chat_stream({"choices": [choice | {"text": ""}]}, "[DONE]")
    assert summarise(Endpoint.COMPLETIONS, empty).empty


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(3, 4)),
        ({"input_tokens": 3, "output_tokens": 4}, Usage(3, 4)),
        ({"prompt_tokens": 3}, Usage(3, 0)),
        ({"completion_tokens": 4, "prompt_tokens": None}, Usage(0, 4)),
        ({"prompt_tokens": -1, "completion_tokens": True}, None),
        ({}, None),
        (None, None),
        (7, None),
    ],
)
def test_usage(usage: object, expected: Usage | None) -> None:
    """Tokens are read under either name, as far as they are counts."""
    assert summarise(CHAT, chat({"content": "Hi"}, usage=usage)).usage == expected


def test_what_the_server_had_cached() -> None:
    """Read in both forms and both shapes; what cannot be true of it is told."""
    details = {"cached_tokens": 2}
    said = summarise(
        CHAT, chat({"content": "Hi"}, usage=USAGE | {"prompt_tokens_details": details})
    )
    assert (said.usage, said.usage_fault) == (Usage(3, 4, 2), "")
    timings = {"cache_n": 2, "prompt_n": 1, "predicted_n": 4}
    last = delta("", "stop") | {"timings": timings}
    assert summarise(CHAT, chat_stream(delta("Hi"), last, "[DONE]")).usage == Usage(3, 4, 2)
    usage = {"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 9}}
    wrong = summarise(Endpoint.RESPONSES, response(TEXT, usage=usage))
    assert (wrong.usage, wrong.usage_fault) == (Usage(3, 4, 3), TOO_MANY)


TEXT: JsonObject = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}


def response(
    *output: JsonObject, form: Form = Form.JSON, kind: str = "response.completed", **fields: Any
) -> Answer:
    """Return a response, as JSON or as the event that ends a stream."""
    body = {
        "status": "completed",
        "error": None,
        "output": list(output),
        "usage": {"input_tokens": 3, "output_tokens": 4},
    } | fields
    if form is Form.JSON:
        return Answer(form, json.dumps(body).encode())
    data = json.dumps({"type": kind, "response": body})
    return Answer(form, f"event: {kind}\ndata: {data}\n\n".encode())


@pytest.mark.parametrize("form", list(Form))
def test_responses(form: Form) -> None:
    """A response that is completed is complete, in both forms."""
    assert summarise(Endpoint.RESPONSES, response(TEXT, form=form)) == FINE


@pytest.mark.parametrize(
    ("reason", "complete", "truncated", "filtered"),
    [
        ("max_output_tokens", True, True, False),
        ("content_filter", True, False, True),
        ("weather", False, False, False),
        (None, False, False, False),
    ],
)
@pytest.mark.parametrize("form", list(Form))
def test_incomplete_responses(
    form: Form, reason: str | None, *, complete: bool, truncated: bool, filtered: bool
) -> None:
    """An incomplete response came to its end if we know why it ended there."""
    answer = response(
        TEXT,
        form=form,
        kind="response.incomplete",
        status="incomplete",
        incomplete_details={"reason": reason},
    )
    summary = summarise(Endpoint.RESPONSES, answer)
    assert (summary.complete, summary.truncated, summary.filtered) == (
        complete,
        truncated,
        filtered,
    )


@pytest.mark.parametrize("status", ["failed", "in_progress", "queued", "cancelled", None])
def test_responses_without_an_answer(status: str | None) -> None:
    """Any other status is no answer, in a terminal event neither."""
    assert not summarise(Endpoint.RESPONSES, response(TEXT, status=status)).complete
    failed = response(TEXT, form=Form.SSE, kind="response.failed", status=status)
    assert not summarise(Endpoint.RESPONSES, failed).complete


@pytest.mark.parametrize(
    ("item", "empty"),
    [
        (TEXT, False),
        ({"type": "message", "content": [{"type": "refusal", "refusal": "No"}]}, False),
        ({"type": "message", "content": [{"type": "output_text", "text": " "}]}, True),
        ({"type": "message", "content": []}, True),
        ({"type": "reasoning", "summary": []}, True),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}, False),
        ({"type": "reasoning", "encrypted_content": "xyz"}, False),
        ({"type": "function_call", "arguments": ""}, False),
        ({"type": "hologram_call"}, False),
    ],
)
def test_empty_responses(item: JsonObject, *, empty: bool) -> None:
    """Messages and reasoning may be empty; an item of any other kind is something."""
    assert summarise(Endpoint.RESPONSES, response(item)).empty is empty
