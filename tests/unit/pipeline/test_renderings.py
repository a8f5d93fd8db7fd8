"""Stored answers in other shapes: made once, remembered within bounds."""

from dataclasses import replace

import pytest
from support.walk import JSON, STREAM, STREAM_WITH_USAGE, completion, stream_of

from stepwell.core.entry import Entry
from stepwell.core.names import Form
from stepwell.pipeline.renderings import Renderings, Unrenderable
from stepwell.testing.entries import make_entry
from stepwell.wire.shape import Shape

WHOLE = make_entry(body=completion())
STREAMED = make_entry(body=b"".join(stream_of("a", "b")), form=Form.SSE)
WITHOUT_USAGE = make_entry(
    body=b"".join(event for event in stream_of("a") if b"total_tokens" not in event),
    form=Form.SSE,
)


def test_the_stored_bytes_are_served_as_they_are() -> None:
    """JSON as JSON, without a copy."""
    assert Renderings(max_bytes=0).of(WHOLE, JSON) is WHOLE.answer.body


@pytest.mark.parametrize("shape", [STREAM, STREAM_WITH_USAGE])
def test_a_rendering_is_made_once(shape: Shape) -> None:
    """The same object the second time."""
    renderings = Renderings(max_bytes=100_000)
    assert renderings.of(WHOLE, shape) is renderings.of(WHOLE, shape)


def test_shapes_do_not_mix() -> None:
    """With usage and without are two renderings of one entry."""
    renderings = Renderings(max_bytes=100_000)
    assert b"total_tokens" in renderings.of(STREAMED, STREAM_WITH_USAGE)
    assert b"total_tokens" not in renderings.of(STREAMED, STREAM)
    assert renderings.of(STREAMED, JSON).startswith(b"{")


def test_a_newer_entry_under_the_same_key_is_rendered_anew() -> None:
    """What was remembered belongs to the entry, not to its key; the older one is let go."""
    renderings = Renderings(max_bytes=100_000)
    old = renderings.of(WHOLE, STREAM)
    newer = replace(WHOLE, created_at=1_001.0, answer=replace(WHOLE.answer, body=completion("No.")))
    assert renderings.of(newer, STREAM) != old
    assert len(renderings._kept) == 1
    assert renderings._bytes == len(renderings.of(newer, STREAM)) + 300


def test_what_lacks_the_usage_asked_for_is_not_made_up() -> None:
    """Every time it is asked for; without usage it can be served."""
    renderings = Renderings(max_bytes=100_000)
    for _ in range(2):
        for shape in (JSON, STREAM_WITH_USAGE):
            with pytest.raises(Unrenderable):
                renderings.of(WITHOUT_USAGE, shape)
    assert renderings.of(WITHOUT_USAGE, STREAM) == WITHOUT_USAGE.answer.body


def numbered(number: int) -> Entry:
    """Return one of many entries."""
    return make_entry(f"question {number}", body=completion(f"answer {number}"))


def test_bytes_are_bounded_and_the_least_recently_used_leave() -> None:
    """What was used lately is still there when others have had to go."""
    renderings = Renderings(max_bytes=10_000)
    first = renderings.of(numbered(0), STREAM)
    for number in range(1, 40):
        renderings.of(numbered(number), STREAM)
        assert renderings.of(numbered(0), STREAM) is first
        assert sum(len(body or b"") for _, body in renderings._kept.values()) <= 10_000
    assert 2 < len(renderings._kept) < 40


def test_a_rendering_larger_than_all_room_is_served_and_forgotten() -> None:
    """It is made again each time; nothing grows."""
    renderings = Renderings(max_bytes=100)
    assert renderings.of(WHOLE, STREAM) == renderings.of(WHOLE, STREAM)
    assert len(renderings._kept) == 0
