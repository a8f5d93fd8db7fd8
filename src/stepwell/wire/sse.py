"""The event-stream format (WHATWG HTML, 9.2): bytes to events, and back.

Lines end in CRLF, LF or CR; a blank line ends an event. Events are handled as the bytes they came
in, so that what is passed on is what was sent.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Bound on one event, far above what model servers send (a picture in base64)."""

DONE = b"[DONE]"
"""Data of the event that ends a chat or completions stream."""

# The end of a line, which may be the second half of a CRLF, and an empty line. A CR that ends the
# buffer may be half of a CRLF, so it only counts once the next byte is known. Not so after a bare
# CR, where nobody sends CRLF: a stream of CRs is not held back.
_EVENT_END = re.compile(rb"\r\r|\n(?:\n|\r\n|\r(?=[^\n]))")
_LONGEST_UNDECIDED = 2


class EventTooLarge(ValueError):
    """One event is larger than the splitter may hold."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. A comment, such as ``: ping``, is an event without data."""

    name: str | None
    data: bytes


class EventSplitter:
    """Cut a stream into events, wherever its chunks begin and end. Not thread-safe.

    The events and `rest`, put together, are the bytes fed.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._buffer = bytearray()

    @property
    def rest(self) -> bytes:
        """The bytes of an event that is not finished yet."""
        return bytes(self._buffer)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the events that ``chunk`` completes, each with its final blank line.

        Linear in the bytes fed.

        Raises:
            EventTooLarge: The unfinished event is over the bound; the stream is lost.
        """
        buffer = self._buffer
        searched = max(0, len(buffer) - _LONGEST_UNDECIDED)
        buffer += chunk
        events = []
        start = 0
        for end in _event_ends(buffer, searched):
            events.append(bytes(buffer[start:end]))
            start = end
        del buffer[:start]
        if len(buffer) > self._max_event_bytes:
            raise EventTooLarge(f"an event is larger than {self._max_event_bytes} bytes")
        return events


def split_events(sse: bytes) -> list[bytes]:
    """Cut a whole stream into events; an unfinished one at the end counts as one."""
    ends = [0, *_event_ends(sse, 0)]
    events = [sse[start:end] for start, end in pairwise(ends)]
    rest = sse[ends[-1] :]
    return [*events, rest] if rest else events


def _event_ends(sse: bytes | bytearray, searched: int) -> Iterator[int]:
    if b"\r" in sse:
        yield from (found.end() for found in _EVENT_END.finditer(sse, searched))
        return
    end = sse.find(b"\n\n", searched)  # the same ends, found five times as fast
    while end >= 0:
        yield end + 2
        end = sse.find(b"\n\n", end + 2)


def parse_event(raw: bytes) -> Event:
    """Read one event as `EventSplitter` gives it. ``id`` and ``retry`` are not looked at.

    A byte order mark at its beginning is left out, as at the beginning of a stream.
    """
    name = None
    data = []
    for line in raw.removeprefix(BOM_UTF8).splitlines():
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode(errors="replace") or None
    return Event(name, b"\n".join(data))


def read_events(sse: bytes) -> Iterator[Event]:
    """Yield the events of a whole stream that carry data."""
    for raw in split_events(sse):
        event = parse_event(raw)
        if event.data:
            yield event


def format_event(data: bytes, name: str | None = None) -> bytes:
    """Return the bytes of an event. ``data`` must be one line."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"
