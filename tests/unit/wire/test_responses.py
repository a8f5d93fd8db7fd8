"""Streams of the responses endpoint."""

import json

import pytest

from stepwell.wire.chunks import JsonObject, UnreadableAnswer
from stepwell.wire.responses import assemble, synthesise

USAGE: JsonObject = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def response(*output: JsonObject, status: str = "completed") -> JsonObject:
    """Return a response with the given output items."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "completed_at": 9,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "m",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
    }


def event(kind: str, **fields: object) -> bytes:
    """Return an event as OpenAI sends it."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def events_of(answer: JsonObject) -> list[JsonObject]:
    """Return the data of the synthesised events; their names must be their types."""
    found = []
    for raw in synthesise(answer):
        name, data, *rest = raw.decode().split("\n")
        assert rest == ["", ""]
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    assert [data["sequence_number"] for data in found] == list(range(len(found)))
    return found


TEXT: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi there", "annotations": [], "logprobs": []}],
}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("completed", "response.completed"),
        ("incomplete", "response.incomplete"),
        ("failed", "response.failed"),
    ],
)
def test_assemble(status: str, kind: str) -> None:
    """The answer is the response of the event that ends the stream."""
    answer = response(TEXT, status=status)
    sse = event("response.created", response=response(status="in_progress"))
    assert assemble(sse + event(kind, response=answer) + event("later")) == answer


@pytest.mark.parametrize(
    "sse",
    [
        b"",
        b"<html></html>",
        event("response.created", response=response()),
        event("error", message="boom") + event("response.completed", response=response()),
        b'data: {"error":{"message":"boom"}}\n\n'
        + event("response.completed", response=response()),
        event("response.completed"),
        event("response.completed", response="x"),
        b"data: 5\n\n" + event("response.completed", response=response()),
        b"data: {cut\n\n" + event("response.completed", response=response()),
    ],
)
def test_no_answer(sse: bytes) -> None:
    """A stream that broke, or has not ended, is no answer."""
    with pytest.raises(UnreadableAnswer):
        assemble(sse)


def test_text() -> None:
    """A text begins as an empty part of an empty message, and is closed at every level."""
    answer = response(TEXT)
    events = events_of(answer)
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = TEXT["content"][0]
    assert [{k: v for k, v in data.items() if k != "sequence_number"} for data in events[2:-1]] == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": TEXT | {"status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **at, "part": part | {"text": ""}},
        {"type": "response.output_text.delta", **at, "delta": "Hi", "logprobs": []},
        {"type": "response.output_text.delta", **at, "delta": " there", "logprobs": []},
        {"type": "response.output_text.done", **at, "text": "Hi there", "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": TEXT},
    ]


def test_begin_and_end() -> None:
    """The first two events hold the response before anything was made, the last one all of it."""
    answer = response(TEXT)
    events = events_of(answer)
    begun = answer | {"status": "in_progress", "output": [], "usage": None, "completed_at": None}
    assert [data["type"] for data in events[:2]] == ["response.created", "response.in_progress"]
    assert [data["response"] for data in events[:2]] == [begun, begun]
    assert events[-1] == {
        "type": "response.completed",
        "sequence_number": len(events) - 1,
        "response": answer,
    }


def kinds_of(item: JsonObject) -> list[str]:
    """Return the types of the events between an item's first and last."""
    kinds = [data["type"].removeprefix("response.") for data in events_of(response(item))]
    assert (kinds[2], kinds[-2]) == ("output_item.added", "output_item.done")
    return kinds[3:-2]


def test_function_call() -> None:
    """Arguments come in pieces, then whole."""
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "f",
        "arguments": '{"x": 1}',
        "status": "completed",
    }
    events = events_of(response(item))
    assert events[2]["item"] == item | {"arguments": "", "status": "in_progress"}
    assert [data.get("delta", data.get("arguments")) for data in events[3:-2]] == [
        '{"x":',
        " 1}",
        '{"x": 1}',
    ]
    assert kinds_of(item) == ["function_call_arguments.delta"] * 2 + [
        "function_call_arguments.done"
    ]


def test_reasoning() -> None:
    """Parts of a summary, and of the reasoning itself, are opened and closed one by one."""
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Think"}],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    assert kinds_of(item) == [
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
    ]


def test_refusal_and_annotations() -> None:
    """A refusal has events of its own, and so does every annotation of a text."""
    note = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    cited = {"type": "output_text", "text": "Hi", "annotations": [note]}
    refused = {"type": "refusal", "refusal": "No"}
    assert kinds_of(TEXT | {"content": [cited, refused]}) == [
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
    ]


def test_other_items() -> None:
    """Items of a type we do not know come whole."""
    item = {"type": "hologram_call", "id": "h_1", "status": "completed", "angles": [1, 2]}
    assert kinds_of(item) == []
    assert kinds_of(TEXT | {"content": [{"type": "hologram", "x": 1}]}) == [
        "content_part.added",
        "content_part.done",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        response(status="in_progress"),
        response(status="queued"),
        response() | {"output": "x"},
        response(TEXT | {"content": [{"type": "output_text", "text": None}]}),
        response({"type": "function_call", "arguments": {}}),
        {"error": {"message": "boom"}},
    ],
)
def test_not_an_answer(answer: JsonObject) -> None:
    """No stream is made of what is no response, or not over."""
    with pytest.raises(UnreadableAnswer):
        synthesise(answer)
