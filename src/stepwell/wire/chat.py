"""Chat completions: from a stream to the JSON answer, and back.

What does not survive the way there and back, because a stream cannot say it: the ``index`` of a
tool call (it is the position), an empty ``content`` beside a tool call or a refusal (it becomes
``null``), and a ``usage`` of ``null`` (it is left out).
"""

from collections.abc import Iterable, Iterator

from stepwell.wire.chunks import (
    ChunkWriter,
    JsonObject,
    UnreadableAnswer,
    add_up,
    continue_with,
    extend,
    integer,
    mapping,
    objects,
    settle,
    whole_chunks,
    write_chunks,
)
from stepwell.wire.pieces import cut, cut_with_logprobs, listed_token

_REASONING = ("reasoning_content", "reasoning")
_TEXTS = (*_REASONING, "content", "refusal")
"""Strings of a message that are sent in pieces, in the order models produce them."""
_CALL_TEXTS = {"function": "arguments", "custom": "input"}
"""By kind of tool call: what of it is sent in pieces."""


def assemble(sse: bytes) -> JsonObject:
    """Return the answer that the same server would have given without ``stream``.

    Fields of a delta that we do not know are added up by their type: strings are put together,
    lists extended, of anything else the last value counts.

    Raises:
        UnreadableAnswer: The stream has an error in it, lacks ``[DONE]``, or is not chat.
    """
    return merge(whole_chunks(sse))


def merge(chunks: Iterable[JsonObject]) -> JsonObject:
    """Return the answer that ``chunks`` amount to, whether or not they are all there."""
    answer = add_up(chunks, "chat.completion", _add)
    for choice in answer["choices"]:
        choice["message"] = _message(choice["message"])
        choice.setdefault("finish_reason", None)
    return answer


def synthesise(answer: JsonObject, *, include_usage: bool) -> list[bytes]:
    """Return the events with which a fresh stream would have given ``answer``.

    Raises:
        UnreadableAnswer: ``answer`` is not a chat completion with at least one choice, or its
            usage is asked for and missing.
    """
    return write_chunks(answer, "chat.completion.chunk", _write_choice, include_usage=include_usage)


def _add(choice: JsonObject, piece: JsonObject) -> None:
    message = choice.setdefault("message", {})
    delta = mapping(piece.get("delta"))
    calls = objects(delta.get("tool_calls"))
    if calls or isinstance(message.get("tool_calls"), dict):
        delta = {name: value for name, value in delta.items() if name != "tool_calls"}
        message["tool_calls"] = message.get("tool_calls") or {}
        for call in calls:
            # Without an index it cannot be told which call goes on: the stream is not understood.
            continue_with(message["tool_calls"].setdefault(integer(call.get("index")), {}), call)
    continue_with(message, delta)
    extend(choice, {n: value for n, value in piece.items() if n not in {"delta", "message"}})


def _message(grown: JsonObject) -> JsonObject:
    message = {"role": "assistant", "content": None} | settle(grown)
    if isinstance(calls := message.get("tool_calls"), dict):
        message["tool_calls"] = [
            {name: value for name, value in calls[index].items() if name != "index"}
            for index in sorted(calls)
        ]
    said_otherwise = (message.get(name) for name in ("tool_calls", "function_call", "refusal"))
    if message["content"] == "" and any(said_otherwise):
        # Streams begin with an empty content before it is known that there will be none.
        message["content"] = None
    return message


def _write_choice(writer: ChunkWriter, choice: JsonObject, *, last: bool) -> None:
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnreadableAnswer("a choice has no message")
    logprobs = choice.get("logprobs")
    known = {"index": choice.get("index", 0), "delta": {}}
    if "logprobs" in choice:
        known["logprobs"] = None
    known["finish_reason"] = None
    first = {**known, "delta": _first_delta(message)}
    if isinstance(logprobs, dict):
        first["logprobs"] = {
            name: [] if isinstance(value, list) else value for name, value in logprobs.items()
        }
    writer.write(first)
    for delta, entries in _deltas(message, mapping(logprobs)):
        piece = {**known, "delta": delta}
        if entries:
            piece["logprobs"] = dict.fromkeys(mapping(logprobs)) | entries
        writer.write(piece)
    rest = {name: value for name, value in choice.items() if name not in {"message", "logprobs"}}
    writer.write({**known, **rest}, last=last)


def _first_delta(message: JsonObject) -> JsonObject:
    """Return the delta that says who speaks, and everything that is not sent in pieces."""
    first: JsonObject = {}
    for name, value in message.items():
        if name == "content" and isinstance(value, str):
            first[name] = ""
        elif name == "tool_calls" or (name in _TEXTS and isinstance(value, str)):
            if not value:
                first[name] = value
        elif name == "function_call" and isinstance(value, dict):
            first[name] = _opened(value, "arguments")
        else:
            first[name] = value
    return first


def _deltas(message: JsonObject, logprobs: JsonObject) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield the deltas after the first one, each with the log probabilities of its tokens."""
    for name in _TEXTS:
        text = message.get(name)
        entries = logprobs.get(name) if name not in _REASONING else None
        entries = entries if isinstance(entries, list) else []
        if isinstance(text, str):
            for piece, of_piece in cut_with_logprobs(text, entries, listed_token):
                yield {name: piece}, {name: of_piece} if of_piece else {}
        elif entries:
            yield {}, {name: entries}
    for piece in _pieces(mapping(message.get("function_call")), "arguments"):
        yield {"function_call": {"arguments": piece}}, {}
    for index, call in enumerate(objects(message.get("tool_calls"))):
        for delta in _call_deltas(call):
            yield {"tool_calls": [{"index": index, **delta}]}, {}


def _call_deltas(call: JsonObject) -> Iterator[JsonObject]:
    texts = {kind: text for kind, text in _CALL_TEXTS.items() if isinstance(call.get(kind), dict)}
    opened = {kind: _opened(call[kind], text) for kind, text in texts.items()}
    yield {name: value for name, value in call.items() if name != "index"} | opened
    for kind, text in texts.items():
        for piece in _pieces(call[kind], text):
            yield {kind: {text: piece}}


def _opened(call: JsonObject, text: str) -> JsonObject:
    return call | {text: ""} if isinstance(call.get(text), str) else call


def _pieces(call: JsonObject, text: str) -> list[str]:
    value = call.get(text)
    return cut(value) if isinstance(value, str) else []
