"""Wilson's interval, against published numbers and by its laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.policy.intervals import ANYWHERE, wilson


@pytest.mark.parametrize(
    ("good", "total", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_published_intervals(good: int, total: int, low: float, high: float) -> None:
    """To four places."""
    interval = wilson(good, total)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)


def test_nothing_counted_says_nothing() -> None:
    """Anything is possible."""
    assert wilson(0, 0) == ANYWHERE


@given(total=st.integers(1, 10**9), share=st.floats(0, 1))
def test_the_share_is_inside(total: int, share: float) -> None:
    """And more of the same makes it narrower."""
    good = round(share * total)
    interval = wilson(good, total)
    assert 0 <= interval.low <= good / total <= interval.high <= 1
    wider, narrower = interval.high - interval.low, wilson(4 * good, 4 * total)
    assert narrower.high - narrower.low <= wider
