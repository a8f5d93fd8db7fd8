"""Worth: what is used more, or later, is worth more, whatever the clock says."""

import math

from hypothesis import given
from hypothesis import strategies as st

from stepwell.stores.disk.worth import HALF_LIFE_SECONDS, used

MOMENTS = st.floats(min_value=-1e11, max_value=1e11)
USES = st.integers(min_value=1, max_value=10**9)


def test_known_values() -> None:
    """One use is worth its moment; 2 uses a half-life ago are worth one now; 8 at once 3 more."""
    assert used(-1e9, 5_000.0, 1) == 5_000.0
    two_before = used(5_000.0, 5_000.0, 1)
    assert two_before == 5_000.0 + HALF_LIFE_SECONDS
    assert used(-1e9, 5_000.0, 8) == 5_000.0 + 3 * HALF_LIFE_SECONDS


@given(MOMENTS, MOMENTS, USES)
def test_any_clock(worth: float, now: float, uses: int) -> None:
    """A use never lowers the worth, and the result is a number even if the clock jumped."""
    after = used(worth, now, uses)
    assert math.isfinite(after)
    assert after >= max(worth, now) - 1e-3


@given(MOMENTS, st.floats(min_value=-1e6, max_value=1e6), USES, USES)
def test_uses_add_up(now: float, ago: float, first: int, second: int) -> None:
    """Uses noted in two goes count as in one."""
    together = used(now - ago, now, first + second)
    apart = used(used(now - ago, now, first), now, second)
    assert math.isclose(together, apart, rel_tol=1e-9, abs_tol=1e-2)


@given(MOMENTS, MOMENTS, MOMENTS, USES)
def test_order_is_kept(one: float, other: float, now: float, uses: int) -> None:
    """Equal uses do not change which of two entries is worth more."""
    low, high = sorted((one, other))
    assert used(low, now, uses) <= used(high, now, uses)
