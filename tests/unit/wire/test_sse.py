"""Events and their bytes."""

import pytest

from stepwell.wire.sse import (
    Event,
    EventSplitter,
    EventTooLarge,
    format_event,
    parse_event,
    read_events,
    split_events,
)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end: bytes) -> None:
    """LF, CRLF and CR all end lines, and an empty line ends an event."""
    first = b"event: a" + end + b"data: 1" + end + end
    second = b"data: 2" + end + end
    splitter = EventSplitter()
    assert splitter.feed(first + second + b"data: 3") == [first, second]
    assert splitter.rest == b"data: 3"
    assert parse_event(first) == Event("a", b"1")


def test_crlf_cut_in_two() -> None:
    """A CR at the end of a chunk may be half of a CRLF; the event waits for the other half."""
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\r\n\r") == []
    assert splitter.feed(b"\ndata: 2\r\n") == [b"data: 1\r\n\r\n"]
    assert splitter.feed(b"\r\n") == [b"data: 2\r\n\r\n"]
    assert splitter.rest == b""


def test_one_chunk_may_complete_many_events() -> None:
    """Every event that a chunk completes is given at once."""
    assert EventSplitter().feed(b"data: 1\n\ndata: 2\n\n: ping\n\n") == [
        b"data: 1\n\n",
        b"data: 2\n\n",
        b": ping\n\n",
    ]


def test_bound() -> None:
    """An event may be as large as the bound and not larger."""
    splitter = EventSplitter(max_event_bytes=10)
    assert splitter.feed(b"data: 1234") == []
    with pytest.raises(EventTooLarge):
        splitter.feed(b"5")


def test_bound_is_for_one_event() -> None:
    """Any number of bytes may pass, as long as no single event is over the bound."""
    splitter = EventSplitter(max_event_bytes=10)
    assert len(splitter.feed(b"data: 1\n\n" * 100)) == 100


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (b": ping\n\n", Event(None, b"")),
        (b"\n\n", Event(None, b"")),
        (b"data: x\n\n", Event(None, b"x")),
        (b"data:x\n\n", Event(None, b"x")),
        (b"data:  x\n\n", Event(None, b" x")),
        (b"data: a\ndata: b\n\n", Event(None, b"a\nb")),
        (b"data\ndata: b\n\n", Event(None, b"\nb")),
        (b"event: error\ndata: x\nid: 5\nretry: 10\n\n", Event("error", b"x")),
        (b"event:\ndata: x\n\n", Event(None, b"x")),
        (b"datum: x\n\n", Event(None, b"")),
        (b"data: a: b\n\n", Event(None, b"a: b")),
        (b"data: x", Event(None, b"x")),
    ],
)
def test_parse(raw: bytes, event: Event) -> None:
    """Fields are read as the event-stream format says."""
    assert parse_event(raw) == event


def test_read_events() -> None:
    """Comments are passed over; an event that is cut off at the end is still read."""
    assert list(read_events(b": hi\n\ndata: 1\n\ndata: [DONE]")) == [
        Event(None, b"1"),
        Event(None, b"[DONE]"),
    ]


def test_format() -> None:
    """An event is written in OpenAI's form and can be read back."""
    assert format_event(b"{}") == b"data: {}\n\n"
    assert format_event(b"{}", name="error") == b"event: error\ndata: {}\n\n"
    assert split_events(b"") == []


def test_a_byte_order_mark_is_no_part_of_the_first_field() -> None:
    """WHATWG HTML, 9.2.5: one is stripped; the bytes that are passed on keep it."""
    (event,) = read_events(b"\xef\xbb\xbfdata: a\n\n")
    assert event.data == b"a"
    assert split_events(b"\xef\xbb\xbfdata: a\n\n") == [b"\xef\xbb\xbfdata: a\n\n"]
