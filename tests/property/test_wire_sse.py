"""Laws of splitting a stream into events, judged by the decoder of OpenAI's client."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

from stepwell.wire.sse import EventSplitter, parse_event, split_events

LINES = st.sampled_from(
    [b"", b"data: a", b"data:b", b"data", b"event: x", b": ping", "data: 你好😀".encode(), b"zz: 1"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=20).map(b"".join)


def chunked(sse: bytes, cuts: list[int]) -> list[bytes]:
    """Return ``sse`` cut at the given places."""
    places = sorted({min(cut, len(sse)) for cut in cuts} | {0, len(sse)})
    return [sse[start:end] for start, end in pairwise(places)]


@settings(deadline=None)
@given(STREAMS | st.binary(max_size=50), st.lists(st.integers(0, 200), max_size=10))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [10, 11, 21])
@example(b"data: a\n\r\ndata: b\r\r\n", [9, 18])
def test_chunk_borders_do_not_matter(sse: bytes, cuts: list[int]) -> None:
    """However a stream is cut into chunks, its events are the same, and no byte is lost."""
    splitter = EventSplitter()
    events = [event for chunk in chunked(sse, cuts) for event in splitter.feed(chunk)]
    whole = EventSplitter()
    assert events == whole.feed(sse)
    assert splitter.rest == whole.rest
    assert b"".join(events) + splitter.rest == sse
    assert b"".join(split_events(sse)) == sse


@settings(deadline=None)
@given(STREAMS)
def test_events_are_those_of_openai_s_client(sse: bytes) -> None:
    """OpenAI's client reads the same names and data from the same bytes."""
    splitter = EventSplitter()
    ours = [parse_event(raw) for raw in splitter.feed(sse)]
    if splitter.rest[-2:] in {b"\n\r", b"\r"}:
        ours.append(parse_event(splitter.rest))  # the client takes a CR at the end at its word
    theirs = list(SSEDecoder().iter_bytes(iter([sse])))
    assert [(event.name, event.data.decode()) for event in ours if event.name or event.data] == [
        (event.event, event.data) for event in theirs if event.event or event.data
    ]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_byte_by_byte(size: int) -> None:
    """Even single bytes make whole events."""
    sse = "data: 你好\r\n\r\n: ping\n\ndata: [DONE]\n\n".encode()
    splitter = EventSplitter()
    events = []
    for start in range(0, len(sse), size):
        events += splitter.feed(sse[start : start + size])
    assert [parse_event(raw).data.decode() for raw in events] == ["你好", "", "[DONE]"]
