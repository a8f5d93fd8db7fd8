"""A stored answer in the shape a caller asks for."""

from typing import assert_never

import orjson

from stepwell.core.entry import Answer
from stepwell.core.names import Endpoint, Form
from stepwell.wire import chat, completions, responses
from stepwell.wire.chunks import JsonObject, UnreadableAnswer, dump
from stepwell.wire.shape import Shape
from stepwell.wire.sse import EventSplitter, split_events
from stepwell.wire.usage import has_usage, without_usage


def render(endpoint: Endpoint, answer: Answer, shape: Shape) -> bytes | None:
    """Return the bytes of ``answer`` in the shape asked for.

    The bytes are the stored ones where the form is the same; usage that was not asked for is cut
    out of a stream and nothing else is touched. Between JSON and stream the answer is written
    anew. Costs nothing for JSON as JSON, some us per chunk otherwise.

    Returns:
        ``None`` if it cannot be done: the shape needs usage and the answer has none (a stream
        stored without), or the answer cannot be read. The caller treats that as a miss.
    """
    try:
        if answer.form is Form.JSON:
            if shape.form is Form.JSON:
                return answer.body
            return b"".join(_synthesise(endpoint, _loads(answer.body), shape))
        if shape.form is Form.SSE:
            return _same_stream(endpoint, answer.body, shape)
        return _assemble(endpoint, answer.body)
    except UnreadableAnswer:
        return None


class UsageFilter:
    """Takes the usage out of a live stream. Not thread-safe.

    Holds back at most one unfinished event.
    """

    def __init__(self) -> None:
        self._splitter = EventSplitter()

    def feed(self, chunk: bytes) -> bytes:
        """Return what may be passed on after ``chunk``; empty if no event is complete.

        Raises:
            EventTooLarge: An event is over the splitter's bound.
        """
        return b"".join(map(without_usage, self._splitter.feed(chunk)))

    def finish(self) -> bytes:
        """Return what was held back when the stream ended: an event that is not finished."""
        return without_usage(self._splitter.rest)


def _same_stream(endpoint: Endpoint, sse: bytes, shape: Shape) -> bytes | None:
    if endpoint is Endpoint.RESPONSES:
        return sse  # usage is part of the answer, not an option
    if shape.include_usage:
        return sse if has_usage(sse) else None
    return b"".join(map(without_usage, split_events(sse)))


def _synthesise(endpoint: Endpoint, answer: JsonObject, shape: Shape) -> list[bytes]:
    match endpoint:
        case Endpoint.CHAT:
            return chat.synthesise(answer, include_usage=shape.include_usage)
        case Endpoint.COMPLETIONS:
            return completions.synthesise(answer, include_usage=shape.include_usage)
        case Endpoint.RESPONSES:
            return responses.synthesise(answer)
        case _:
            assert_never(endpoint)


def _assemble(endpoint: Endpoint, sse: bytes) -> bytes | None:
    match endpoint:
        case Endpoint.CHAT:
            answer = chat.assemble(sse)
        case Endpoint.COMPLETIONS:
            answer = completions.assemble(sse)
        case Endpoint.RESPONSES:
            return dump(responses.assemble(sse))
        case _:
            assert_never(endpoint)
    return dump(answer) if "usage" in answer else None


def _loads(body: bytes) -> JsonObject:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UnreadableAnswer("the answer is not JSON") from None
    if not isinstance(answer, dict):
        raise UnreadableAnswer("the answer is not an object")
    return answer
