"""Responses: from a stream to the JSON answer, and back."""

from collections.abc import Iterator
from typing import Any

import orjson

from stepwell.wire.chunks import JsonObject, UnreadableAnswer, dump, objects
from stepwell.wire.pieces import cut, cut_with_logprobs, listed_token
from stepwell.wire.sse import format_event, read_events

_TERMINAL = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
}
"""By the status of a response that is over: the event that says so."""

_PART_TEXTS = {
    "output_text": ("text", "response.output_text"),
    "reasoning_text": ("text", "response.reasoning_text"),
    "refusal": ("refusal", "response.refusal"),
}
"""By type of content part: the field that is sent in pieces, and the stem of its events."""

_ITEM_TEXTS = {
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
    "function_call": ("arguments", "response.function_call_arguments"),
    "mcp_call": ("arguments", "response.mcp_call_arguments"),
}
"""The same by type of output item. Items of other types come whole, in two events."""

_Events = Iterator[tuple[str, JsonObject]]


def assemble(sse: bytes) -> JsonObject:
    """Return the response that the stream's last event holds, whatever its status.

    Raises:
        UnreadableAnswer: An error event comes first, or no event ends the stream.
    """
    for event in read_events(sse):
        try:
            data = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            break
        if not isinstance(data, dict) or is_error(event.name, data):
            break
        if data.get("type") in _TERMINAL.values():
            response = data.get("response")
            if isinstance(response, dict):
                return response
            break
    raise UnreadableAnswer("the stream did not come to its end")


def is_error(name: str | None, data: JsonObject) -> bool:
    """Return whether an event says that the stream broke. (`response.failed` is an answer.)"""
    return name == "error" or data.get("type") == "error" or bool(data.get("error"))


def synthesise(answer: JsonObject) -> list[bytes]:
    """Return the events with which a fresh stream would have given ``answer``.

    Raises:
        UnreadableAnswer: ``answer`` is not a response, or one that is not over.
    """
    events = _events(answer)
    return [
        format_event(dump({"type": kind, "sequence_number": number, **fields}), name=kind)
        for number, (kind, fields) in enumerate(events)
    ]


def _events(answer: JsonObject) -> _Events:
    terminal = _TERMINAL.get(str(answer.get("status")))
    if terminal is None:
        raise UnreadableAnswer("the response is not over")
    begun = answer | {"status": "in_progress", "output": []}
    begun |= {
        name: None
        for name in ("usage", "completed_at", "error", "incomplete_details")
        if name in answer
    }
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(objects(answer.get("output"))):
        at = {"output_index": index, "item": _opened_item(item)}
        yield "response.output_item.added", at
        yield from _item_events(item, {"item_id": item.get("id") or "", "output_index": index})
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield terminal, {"response": answer}


def _opened_item(item: JsonObject) -> JsonObject:
    """Return ``item`` as it is when it begins: in progress, with nothing in it."""
    opened = item | {"status": "in_progress"} if "status" in item else dict(item)
    for name in ("content", "summary"):
        if isinstance(item.get(name), list):
            opened[name] = []
    if streamed := _ITEM_TEXTS.get(str(item.get("type"))):
        opened[streamed[0]] = ""
    return opened


def _item_events(item: JsonObject, at: JsonObject) -> _Events:
    if streamed := _ITEM_TEXTS.get(str(item.get("type"))):
        name, stem = streamed
        text = _text(item, name)
        for piece in cut(text):
            yield f"{stem}.delta", {**at, "delta": piece}
        yield f"{stem}.done", {**at, name: text}
    if item.get("type") == "reasoning":
        for index, part in enumerate(objects(item.get("summary"))):
            yield from _summary_events(part, {**at, "summary_index": index})
    if item.get("type") in {"message", "reasoning"}:
        for index, part in enumerate(objects(item.get("content"))):
            yield from _part_events(part, {**at, "content_index": index})


def _summary_events(part: JsonObject, at: JsonObject) -> _Events:
    text = _text(part, "text")
    yield "response.reasoning_summary_part.added", {**at, "part": part | {"text": ""}}
    for piece in cut(text):
        yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
    yield "response.reasoning_summary_text.done", {**at, "text": text}
    yield "response.reasoning_summary_part.done", {**at, "part": part}


def _part_events(part: JsonObject, at: JsonObject) -> _Events:
    streamed = _PART_TEXTS.get(str(part.get("type")))
    if streamed is None:
        yield "response.content_part.added", {**at, "part": part}
        yield "response.content_part.done", {**at, "part": part}
        return
    name, stem = streamed
    lists: JsonObject = {field: [] for field, value in part.items() if isinstance(value, list)}
    yield "response.content_part.added", {**at, "part": part | lists | {name: ""}}
    text = _text(part, name)
    if stem == "response.output_text":
        yield from _output_text_events(part, text, at)
    else:
        for piece in cut(text):
            yield f"{stem}.delta", {**at, "delta": piece}
        yield f"{stem}.done", {**at, name: text}
    yield "response.content_part.done", {**at, "part": part}


def _output_text_events(part: JsonObject, text: str, at: JsonObject) -> _Events:
    entries = objects(part.get("logprobs"))
    for piece, of_piece in cut_with_logprobs(text, entries, listed_token):
        fields = {**at, "delta": piece, "logprobs": of_piece}
        yield "response.output_text.delta", fields
    for index, annotation in enumerate(objects(part.get("annotations"))):
        fields = {**at, "annotation_index": index, "annotation": annotation}
        yield "response.output_text.annotation.added", fields
    yield "response.output_text.done", {**at, "text": text, "logprobs": entries}


def _text(part: JsonObject, name: str) -> str:
    text: Any = part.get(name)
    if not isinstance(text, str):
        raise UnreadableAnswer(f"{name} is not a string")
    return text
