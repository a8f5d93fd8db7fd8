"""Laws of cutting documents."""

from hypothesis import example, given
from hypothesis import strategies as st

from stepwell.embedding.documents.cutting import Bounds, cut

_MARKS = ["# ", "## Two\n", "\n", "\n\n", "```\n", "~~~\n", "- ", "1. ", ". ", "! ", "e.g. ", "a, "]
_ODD = [
    "。",
    "？”",
    "，",
    " " * 90,
    "word ",
    "x" * 700,
    "好" * 350,
    "\r\n",
    "\u3000",
    "\ud800",
    "\0",
]
_texts = st.lists(st.sampled_from([*_MARKS, *_ODD]) | st.text(max_size=20), max_size=80).map(
    "".join
)
_bounds = st.builds(
    lambda least, more: Bounds(least, least + 1_000 + more),
    st.integers(1, 800),
    st.integers(0, 900),
)


@given(_texts, _bounds)
@example("", Bounds())
def test_nothing_is_lost_and_bounds_are_kept(text: str, bounds: Bounds) -> None:
    """Joined, the chunks are the text; each begins where it says and is of a size that is allowed.

    And the same text is cut the same way again.
    """
    found = cut(text, bounds)
    sizes = [len(piece.text.encode("utf-8", "surrogatepass")) for piece in found]
    assert "".join(piece.text for piece in found) == text
    assert all(text[piece.start :].startswith(piece.text) for piece in found)
    assert all(0 < size <= bounds.max_bytes for size in sizes)
    assert all(size >= bounds.min_bytes for size in sizes[:-1])
    assert cut(text, bounds) == found


@given(_texts, _texts)
def test_what_comes_after_changes_no_early_chunk(text: str, more: str) -> None:
    """Only chunks whose largest size reaches what was appended may change."""
    bounds = Bounds()
    before, after = cut(text, bounds), cut(text + more, bounds)
    safe = len(text) - 2 * bounds.max_bytes
    assert [piece for piece in before if piece.start < safe] == [
        piece for piece in after if piece.start < safe
    ]
