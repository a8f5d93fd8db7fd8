"""Taking the usage out of a stream, byte by byte, so that everything else stays what it was.

Servers asked for usage add ``"usage":null`` to every chunk and send one more, without choices,
that has the numbers. Cutting the member out of the bytes is safe, because in JSON text a quote
inside a string is always preceded by a backslash. A quote right after a comma or a brace (white
space aside) can thus only open a string or close one; were it to close one, ``usage`` could not
follow. So the match is a member named ``usage`` of some object. That it is the chunk's own, not
one of an object inside it, shows when nothing but the last brace follows; elsewhere it is proved
by reading both versions.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from stepwell.wire.sse import parse_event, split_events

_NULL_USAGE = re.compile(rb'"usage"[ \t]*:[ \t]*null[ \t]*')
_AT_THE_END = re.compile(rb"data: \{.*(,[ \t]*" + _NULL_USAGE.pattern + rb")\}[ \t]*[\r\n]+\Z")


def without_usage(event: bytes) -> bytes:
    """Return a chunk's event as it would have been sent without ``include_usage``.

    Empty if it would not have been sent. Usage in a chunk that has choices stays: some servers
    send it there asked or not. So does everything that is no JSON object. Costs 1 to 10 us.
    """
    if found := _AT_THE_END.match(event):
        return event[: found.start(1)] + event[found.end(1) :]
    if b'"usage"' not in event:
        return event
    chunk = _chunk(event)
    if is_usage_chunk(chunk):
        return b""
    if chunk.get("usage", ...) is not None:
        return event
    del chunk["usage"]
    for start, end in _null_members(event):
        edited = event[:start] + event[end:]
        if _chunk(edited) == chunk:
            return edited
    return event


def _null_members(event: bytes) -> Iterator[tuple[int, int]]:
    """Yield where members ``"usage": null`` begin and end, one comma included."""
    for found in _NULL_USAGE.finditer(event):
        start = len(event[: found.start()].rstrip(b" \t"))
        if event[start - 1 : start] == b",":
            yield start - 1, found.end()
        elif event[start - 1 : start] == b"{":
            after = event[found.end() :]
            rest = after.removeprefix(b",").lstrip(b" \t")
            yield start, found.end() + len(after) - len(rest)


def is_usage_chunk(chunk: dict[str, Any]) -> bool:
    """Return whether a chunk is the additional one that ``include_usage`` asks for."""
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def has_usage(sse: bytes) -> bool:
    """Return whether any chunk has the numbers. They come last, so the end is looked at first."""
    return any(
        b'"usage"' in event and isinstance(_chunk(event).get("usage"), dict)
        for event in reversed(split_events(sse))
    )


def _chunk(event: bytes) -> dict[str, Any]:
    try:
        chunk = orjson.loads(parse_event(event).data)
    except orjson.JSONDecodeError:
        return {}
    return chunk if isinstance(chunk, dict) else {}
