"""What the streams of chat and completions have in common: chunks, and how they add up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from stepwell.wire.sse import DONE, format_event, read_events

JsonObject = dict[str, Any]

_IN_EVERY_CHUNK = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
_FIRST = ("id", "object", "created", "model", "choices", "usage")
"""The order servers write an answer in; it means nothing, but it is what people expect to see."""
_ONLY_IN_STREAMS = frozenset({"choices", "object", "obfuscation", "usage"})
_REPEATED = frozenset({"id", "index", "role", "type"})
"""Strings that some servers send with every delta: said again, not continued."""
_MERGED_LEVELS = 4
"""Objects are added up to this depth, one more than any delta we know has; below, the last value
counts. So no answer can be nested too deep for us."""


class UnreadableAnswer(ValueError):
    """The bytes are not a whole answer of this endpoint, or not in a form we know."""


@dataclass(frozen=True, slots=True)
class ChunkStream:
    """A stream as far as it could be read."""

    chunks: list[JsonObject]
    done: bool
    """``[DONE]`` is the last event, with no error event and nothing but JSON objects before it."""


def read_chunks(sse: bytes) -> ChunkStream:
    """Read a stream up to ``[DONE]``, or to the first event that is not a chunk. Never raises."""
    chunks: list[JsonObject] = []
    events = read_events(sse)
    for event in events:
        if event.data == DONE:
            # What comes behind the end is nothing to be kept and said again.
            return ChunkStream(chunks, done=not any(later.data for later in events))
        try:
            chunk = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            break
        if not isinstance(chunk, dict) or event.name == "error" or chunk.get("error"):
            break
        chunks.append(chunk)
    return ChunkStream(chunks, done=False)


def whole_chunks(sse: bytes) -> list[JsonObject]:
    """Return the chunks of a stream that came to its end; raise `UnreadableAnswer` otherwise."""
    stream = read_chunks(sse)
    if not stream.done:
        raise UnreadableAnswer("the stream did not come to its end")
    return stream.chunks


def add_up(
    chunks: Iterable[JsonObject],
    object_name: str,
    add: Callable[[JsonObject, JsonObject], None],
) -> JsonObject:
    """Return the answer that ``chunks`` amount to, its choices sorted by index.

    ``add(choice, piece)`` adds one chunk's piece to a choice. Of a field beside ``choices`` the
    last value that is not ``null`` counts; fields that only streams have are left out.
    """
    answer: JsonObject = {}
    choices: dict[int, JsonObject] = {}
    for chunk in chunks:
        for name, value in chunk.items():
            if name not in _ONLY_IN_STREAMS:
                replace(answer, name, value)
        if isinstance(usage := chunk.get("usage"), dict):
            answer["usage"] = usage
        for piece in objects(chunk.get("choices")):
            index = integer(piece.get("index", 0))
            add(choices.setdefault(index, {"index": index}), piece)
    answer["object"] = object_name
    answer["choices"] = [choices[index] for index in sorted(choices)]
    return {name: answer[name] for name in _FIRST if name in answer} | answer


def replace(target: JsonObject, name: str, value: object) -> None:
    """Set ``target[name]``, but keep what is there if ``value`` is ``null``."""
    if value is None:
        target.setdefault(name, None)
    else:
        target[name] = value


def extend(target: JsonObject, piece: JsonObject, levels: int = _MERGED_LEVELS) -> None:
    """Add the fields of a choice to what is there: lists grow, the last of other values counts."""
    for name, value in piece.items():
        old = target.get(name)
        if isinstance(old, list) and isinstance(value, list):
            old.extend(value)
        elif isinstance(old, dict) and isinstance(value, dict) and levels:
            extend(old, value, levels - 1)
        else:
            replace(target, name, value)


class _Text(list[str]):
    """A string that still grows. Joining at every delta would cost the square of its length."""


def continue_with(target: JsonObject, delta: JsonObject, levels: int = _MERGED_LEVELS) -> None:
    """Add a delta to what is there: strings and lists grow, the last of other values counts.

    `settle` must be called before ``target`` is read.
    """
    for name, value in delta.items():
        old = target.get(name)
        if isinstance(value, str) and isinstance(old, _Text):
            old.append(value)
        elif isinstance(value, str) and isinstance(old, str) and name not in _REPEATED:
            target[name] = _Text([old, value])
        elif isinstance(value, dict) and isinstance(old, dict) and levels:
            continue_with(old, value, levels - 1)
        elif isinstance(value, list) and isinstance(old, list) and not isinstance(old, _Text):
            old.extend(value)
        else:
            replace(target, name, value)


def settle(target: JsonObject, levels: int = _MERGED_LEVELS) -> JsonObject:
    """Return ``target`` with its grown strings as strings."""
    for name, value in target.items():
        if isinstance(value, _Text):
            target[name] = "".join(value)
        elif isinstance(value, dict) and levels:
            settle(value, levels - 1)
    return target


def objects(value: object) -> list[JsonObject]:
    """Return ``value`` if it is a list of objects; ``null`` is an empty one."""
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value
    raise UnreadableAnswer("a list of objects is expected")


def mapping(value: object) -> JsonObject:
    """Return ``value`` if it is an object; ``null`` is an empty one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise UnreadableAnswer("an object is expected")


def integer(value: object) -> int:
    """Return ``value`` if it is an integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UnreadableAnswer("an integer is expected")


def dump(value: JsonObject) -> bytes:
    """Return ``value`` as JSON; `UnreadableAnswer` if it is nested too deep to be written."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise UnreadableAnswer("the answer cannot be written") from None


class ChunkWriter:
    """Writes the chunks of one answer in the form OpenAI's servers use.

    ``id``, ``model`` and the like are in every chunk, ``usage`` is in every chunk if it was asked
    for (``null`` but in the last one), anything else the answer has is in the last choice's chunk.
    """

    def __init__(self, answer: JsonObject, object_name: str, *, include_usage: bool) -> None:
        own = {**answer, "object": object_name}
        self._head: JsonObject = {name: own[name] for name in _IN_EVERY_CHUNK if name in own}
        self._tail = {
            name: value
            for name, value in answer.items()
            if name not in _ONLY_IN_STREAMS and name not in _IN_EVERY_CHUNK
        }
        self._usage: JsonObject | None = None
        if include_usage:
            self._usage = mapping(answer.get("usage"))
            if not self._usage:
                raise UnreadableAnswer("the answer does not say its usage")
        self._events: list[bytes] = []

    def write(self, choice: JsonObject, *, last: bool = False) -> None:
        """Write a chunk with a piece of one choice."""
        chunk = {**self._head, "choices": [choice]}
        if last:
            chunk |= self._tail
        if self._usage is not None:
            chunk["usage"] = None
        self._events.append(format_event(dump(chunk)))

    def finish(self) -> list[bytes]:
        """Return all events: the chunks, the usage if it was asked for, and ``[DONE]``."""
        if self._usage is not None:
            chunk = {**self._head, "choices": [], "usage": self._usage}
            self._events.append(format_event(dump(chunk)))
        return [*self._events, format_event(DONE)]


class WriteChoice(Protocol):
    """Writes one choice of an answer, in as many chunks as it takes."""

    def __call__(self, writer: ChunkWriter, choice: JsonObject, *, last: bool) -> None:
        """Write ``choice``; ``last`` if none follows."""
        ...


def write_chunks(
    answer: JsonObject, object_name: str, write_choice: WriteChoice, *, include_usage: bool
) -> list[bytes]:
    """Return the events with which a fresh stream of ``object_name`` would have given ``answer``.

    Raises:
        UnreadableAnswer: It has no choices, or its usage is asked for and missing.
    """
    writer = ChunkWriter(answer, object_name, include_usage=include_usage)
    choices = objects(answer.get("choices"))
    if not choices:
        raise UnreadableAnswer("the answer has no choices")
    for choice in choices:
        write_choice(writer, choice, last=choice is choices[-1])
    return writer.finish()
