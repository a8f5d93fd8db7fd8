"""The name of a hit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.names import CacheKey, PairId
from stepwell.pipeline.hit_id import HitId, read_hit_id, write_hit_id

hits = st.builds(
    HitId,
    st.binary(min_size=32, max_size=32).map(CacheKey),
    st.binary(min_size=16, max_size=16).map(PairId),
    st.floats(0, 1, width=32),
)


@given(hits)
def test_round_trip(hit: HitId) -> None:
    """What is written is read again, and fits in a header field."""
    text = write_hit_id(hit)
    assert read_hit_id(text) == hit
    assert len(text) == 70
    assert text.isascii()


@given(st.text(max_size=100))
def test_anything_else_is_refused(text: str) -> None:
    """With a `ValueError`; or it happens to be one."""
    try:
        hit = read_hit_id(text)
    except ValueError:
        return
    assert 0 <= hit.similarity <= 1


@pytest.mark.parametrize("text", ["", "x", "A" * 69, "A" * 71, "é" * 70, "_" * 70, "A" * 70 + "\n"])
def test_what_is_none(text: str) -> None:
    """Too short, too long, no letters of ours, no similarity."""
    with pytest.raises(ValueError, match="hit's id"):
        read_hit_id(text)
