"""What an answer says, apart from how it was sent: its text and the tools it calls."""

from collections.abc import Iterator
from typing import Any

import orjson

from stepwell.core.entry import Answer
from stepwell.core.judging import Said, ToolCall
from stepwell.core.names import Endpoint, Form
from stepwell.wire import chat, completions, responses
from stepwell.wire.chunks import JsonObject, UnreadableAnswer, mapping, objects

_NOT_TEXT = ("audio", "images")
"""Fields of a chat message that say what no text can."""

_ASIDE = frozenset({"reasoning", "web_search_call", "file_search_call", "mcp_list_tools"})
"""Output items of a response on the way to its answer."""

_BETWEEN = "\n\n"


def said(endpoint: Endpoint, answer: Answer) -> Said | None:
    """Return what ``answer`` says; the same for JSON and for the stream that amounts to it.

    Several choices, or output items, are put one below the other. How the model came to its
    answer (reasoning, searches) is left out. ``None`` if the answer cannot be read, or says
    something that is no text (a picture, a sound, an item of an unknown type). Never raises.

    Costs a few us per chunk of a stream.
    """
    try:
        body = _body(endpoint, answer)
        if endpoint is Endpoint.RESPONSES:
            return _of_items(objects(body.get("output")))
        return _of_choices(objects(body.get("choices")))
    except (UnreadableAnswer, orjson.JSONDecodeError):
        return None


def _body(endpoint: Endpoint, answer: Answer) -> JsonObject:
    if answer.form is Form.JSON:
        return mapping(orjson.loads(answer.body))
    match endpoint:
        case Endpoint.CHAT:
            return chat.assemble(answer.body)
        case Endpoint.COMPLETIONS:
            return completions.assemble(answer.body)
        case Endpoint.RESPONSES:
            return responses.assemble(answer.body)


def _of_choices(choices: list[JsonObject]) -> Said | None:
    if not choices:
        return None
    texts: list[str] = []
    calls: list[ToolCall] = []
    for choice in choices:
        message = mapping(choice.get("message"))
        if any(message.get(name) for name in _NOT_TEXT):
            return None
        given = (message.get("content"), message.get("refusal"), choice.get("text"))
        texts += filter(None, map(_text, given))
        calls += _calls(message)
    return Said(_BETWEEN.join(texts), tuple(calls))


def _calls(message: JsonObject) -> Iterator[ToolCall]:
    if function := mapping(message.get("function_call")):
        yield _call(function, "arguments")
    for call in objects(message.get("tool_calls")):
        if custom := mapping(call.get("custom")):
            yield _call(custom, "input")
        else:
            yield _call(mapping(call.get("function")), "arguments")


def _of_items(items: list[JsonObject]) -> Said | None:
    texts: list[str] = []
    calls: list[ToolCall] = []
    for item in items:
        match item.get("type"):
            case "message":
                texts.append(_parts(item.get("content")))
            case "function_call" | "mcp_call":
                calls.append(_call(item, "arguments"))
            case "custom_tool_call":
                calls.append(_call(item, "input"))
            case kind if kind not in _ASIDE:
                return None
    if not items:
        return None
    return Said(_BETWEEN.join(filter(None, texts)), tuple(calls))


def _text(value: object) -> str:
    """Return a text, or the texts of a list of parts."""
    if value is None or isinstance(value, str):
        return value or ""
    return _parts(value)


def _parts(value: object) -> str:
    return "".join(map(_part, objects(value)))


def _part(part: JsonObject) -> str:
    given: Any = part.get("text", part.get("refusal"))
    if not isinstance(given, str):
        raise UnreadableAnswer("a part of the answer is no text")
    return given


def _call(call: JsonObject, name: str) -> ToolCall:
    called, given = call.get("name"), call.get(name)
    if not isinstance(called, str) or not isinstance(given, str):
        raise UnreadableAnswer("a call without a name or arguments")
    return ToolCall(called, _canonical(given))


def _canonical(arguments: str) -> str:
    """Return JSON in one spelling; other text, such as a custom tool's input, as it is."""
    try:
        return orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return arguments
