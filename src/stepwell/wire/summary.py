"""What an answer says about itself, as far as storing it goes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, assert_never

import orjson

from stepwell.core.entry import Answer, Usage
from stepwell.core.names import Endpoint, Form
from stepwell.wire import chat, completions, responses
from stepwell.wire.chunks import JsonObject, UnreadableAnswer, read_chunks
from stepwell.wire.counts import read_counts


@dataclass(frozen=True, slots=True)
class Summary:
    """Facts read from a whole answer, JSON or stream."""

    complete: bool
    """The answer is well-formed and came to its end (``[DONE]``, ``response.completed``, ...);
    no error event is in it."""
    empty: bool
    """No choice or output item carries text, a tool call, a refusal, reasoning or the like."""
    truncated: bool
    """At least one choice stopped at a length limit (``finish_reason: length``,
    ``incomplete_details.reason: max_output_tokens``)."""
    filtered: bool
    """A content filter cut at least one choice."""
    usage: Usage | None
    """Tokens, if the answer says."""
    usage_fault: str = ""
    """What cannot be true of what it says of tokens: see `stepwell.wire.counts.Counts`."""


_NOTHING = Summary(complete=False, empty=True, truncated=False, filtered=False, usage=None)

_CARRIERS = (
    "content",
    "refusal",
    "reasoning_content",
    "reasoning",
    "tool_calls",
    "function_call",
    "audio",
    "images",
)
"""Fields of a chat message that carry an answer."""

_FINISHED = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})
"""OpenAI's finish reasons. Servers have more of their own for answers that broke off ("abort",
"error", "insufficient_system_resource"), and some send ``[DONE]`` after them."""


def summarise(endpoint: Endpoint, answer: Answer) -> Summary:
    """Read what there is to know of an answer. Never raises, whatever the bytes are.

    Complete means beyond doubt, because what is complete may be stored:

    * chat and completions: there is a choice, and every choice has one of OpenAI's finish
      reasons; a stream also has ``[DONE]``, and no error event before it. A server that leaves
      ``[DONE]`` out cannot be told from a connection that was lost before the next choice began.
    * responses: the status is ``completed``, or ``incomplete`` for a reason we know; in a stream
      it is the last event's.

    Costs a few us per chunk of a stream.
    """
    try:
        if endpoint is Endpoint.RESPONSES:
            return _of_response(_response(answer))
        return _of_choices(endpoint, answer)
    except (UnreadableAnswer, orjson.JSONDecodeError):
        return _NOTHING


def _of_choices(endpoint: Endpoint, answer: Answer) -> Summary:
    merge = chat.merge if endpoint is Endpoint.CHAT else completions.merge
    ended = True
    if answer.form is Form.SSE:
        stream = read_chunks(answer.body)
        body = merge(stream.chunks)
        ended = stream.done
    else:
        body = _object(orjson.loads(answer.body))
        ended = not body.get("error")
    choices = [choice for choice in _list(body.get("choices")) if isinstance(choice, dict)]
    reasons = {str(choice.get("finish_reason")) for choice in choices}
    counts = read_counts(body)
    return Summary(
        complete=ended and bool(choices) and reasons <= _FINISHED,
        empty=not any(map(_carries, choices)),
        truncated="length" in reasons,
        filtered="content_filter" in reasons,
        usage=counts.usage,
        usage_fault=counts.fault,
    )


def _carries(choice: JsonObject) -> bool:
    message = choice.get("message")
    if isinstance(message, dict):
        return any(_says(message.get(name)) for name in _CARRIERS)
    return _says(choice.get("text"))


def _response(answer: Answer) -> JsonObject:
    match answer.form:
        case Form.JSON:
            return _object(orjson.loads(answer.body))
        case Form.SSE:
            return responses.assemble(answer.body)
        case _:
            assert_never(answer.form)


def _of_response(response: JsonObject) -> Summary:
    status = response.get("status")
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    truncated = status == "incomplete" and reason == "max_output_tokens"
    filtered = status == "incomplete" and reason == "content_filter"
    counts = read_counts(response)
    return Summary(
        complete=not response.get("error") and (status == "completed" or truncated or filtered),
        empty=not any(map(_item_carries, _list(response.get("output")))),
        truncated=truncated,
        filtered=filtered,
        usage=counts.usage,
        usage_fault=counts.fault,
    )


def _item_carries(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    if item.get("type") not in {"message", "reasoning"}:
        return True
    parts: Iterable[Any] = [*_list(item.get("content")), *_list(item.get("summary"))]
    return any(
        _says(part.get("text")) or _says(part.get("refusal"))
        for part in parts
        if isinstance(part, dict)
    ) or _says(item.get("encrypted_content"))


def _says(value: object) -> bool:
    return bool(value.strip() if isinstance(value, str) else value)


def _object(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
