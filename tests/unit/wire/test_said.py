"""What answers say, the same in either form."""

import json
from typing import Any

import pytest

from stepwell.core.entry import Answer
from stepwell.core.judging import Said, ToolCall
from stepwell.core.names import Endpoint, Form
from stepwell.wire.render import render
from stepwell.wire.said import said
from stepwell.wire.shape import Shape

JsonObject = dict[str, Any]


def chat(*messages: JsonObject) -> JsonObject:
    choices = [
        {"index": index, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
        for index, message in enumerate(messages)
    ]
    return {"object": "chat.completion", "choices": choices}


def completions(*texts: str) -> JsonObject:
    choices = [
        {"index": index, "text": text, "finish_reason": "stop"} for index, text in enumerate(texts)
    ]
    return {"object": "text_completion", "choices": choices}


def response(*items: JsonObject) -> JsonObject:
    return {"object": "response", "status": "completed", "output": list(items)}


def message(*parts: JsonObject) -> JsonObject:
    return {"type": "message", "id": "m", "role": "assistant", "content": list(parts)}


def text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


def function(name: str, arguments: str) -> JsonObject:
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


CALL = function("search", '{"b": [1, 2],\n "a": "鞋"}')
CANONICAL = ToolCall("search", '{"a":"鞋","b":[1,2]}')


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        (Endpoint.CHAT, chat({"content": "Yes, 你好."}), Said("Yes, 你好.")),
        (Endpoint.CHAT, chat({"content": "One"}, {"content": "Two"}), Said("One\n\nTwo")),
        (Endpoint.CHAT, chat({"content": None, "refusal": "No."}), Said("No.")),
        (Endpoint.CHAT, chat({"content": "42", "reasoning_content": "6 * 7"}), Said("42")),
        (Endpoint.CHAT, chat({"content": None, "tool_calls": [CALL]}), Said("", (CANONICAL,))),
        (
            Endpoint.CHAT,
            chat({"content": "", "function_call": {"name": "f", "arguments": "{ }"}}),
            Said("", (ToolCall("f", "{}"),)),
        ),
        (Endpoint.COMPLETIONS, completions("One", "Two"), Said("One\n\nTwo")),
        (
            Endpoint.RESPONSES,
            response(
                {"type": "reasoning", "id": "r", "summary": []},
                message(text_part("Yes, "), text_part("always.")),
            ),
            Said("Yes, always."),
        ),
        (
            Endpoint.RESPONSES,
            response(message({"type": "refusal", "refusal": "No."})),
            Said("No."),
        ),
        (
            Endpoint.RESPONSES,
            response(
                {"type": "function_call", "name": "search", "arguments": '{"b":[1,2],"a":"鞋"}'}
            ),
            Said("", (CANONICAL,)),
        ),
        (
            Endpoint.RESPONSES,
            response({"type": "custom_tool_call", "name": "run", "input": "not { JSON"}),
            Said("", (ToolCall("run", "not { JSON"),)),
        ),
    ],
)
def test_both_forms_say_the_same(endpoint: Endpoint, body: JsonObject, expected: Said) -> None:
    """JSON, and the stream that is written from it."""
    answer = Answer(Form.JSON, json.dumps(body).encode())
    stream = render(endpoint, answer, Shape(Form.SSE, include_usage=False))
    assert stream is not None
    assert said(endpoint, answer) == expected
    assert said(endpoint, Answer(Form.SSE, stream)) == expected


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.CHAT, chat({"content": None, "audio": {"data": "AAAA"}})),
        (Endpoint.CHAT, chat({"content": "Here.", "images": [{"image_url": {"url": "x"}}]})),
        (Endpoint.CHAT, chat({"content": [{"type": "image_url", "image_url": {}}]})),
        (Endpoint.CHAT, chat({"content": None, "tool_calls": [{"function": {"name": "f"}}]})),
        (Endpoint.RESPONSES, response({"type": "image_generation_call", "result": "AAAA"})),
        (Endpoint.RESPONSES, response({"type": "something_new"})),
        (Endpoint.RESPONSES, response()),
    ],
)
def test_what_no_text_can_say(endpoint: Endpoint, body: JsonObject) -> None:
    """Is not judged by its text."""
    assert said(endpoint, Answer(Form.JSON, json.dumps(body).encode())) is None


@pytest.mark.parametrize("endpoint", list(Endpoint))
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\x00",
        b"null",
        b"[]",
        b'{"choices":5,"output":5,"status":5}',
        b'{"choices":[5,null,{}],"output":[5,null,{}]}',
        b'{"choices":[{"message":5,"text":[]}],"output":[{"type":"message","content":5}]}',
        b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n',
    ],
)
def test_odd_bytes_say_nothing(endpoint: Endpoint, form: Form, body: bytes) -> None:
    """And nothing is raised."""
    assert said(endpoint, Answer(form, body)) is None


def test_arguments_nested_too_deep_stay_as_they_are() -> None:
    """They can be read but not be written."""
    deep = "[" * 300 + "]" * 300
    body = chat({"content": None, "tool_calls": [function("f", deep)]})
    answer = Answer(Form.JSON, json.dumps(body).encode())
    assert said(Endpoint.CHAT, answer) == Said("", (ToolCall("f", deep),))
