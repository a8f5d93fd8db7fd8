"""Parameters that may differ a little."""

import pytest

from stepwell.policy.compatibility import is_compatible


@pytest.mark.parametrize(
    ("asked", "stored", "compatible"),
    [
        (0.0, 0.0, True),
        (0.7, 0.8, True),
        (0.8, 0.7, True),
        (0.0, 0.1, True),
        (0.0, 0.11, False),
        (0.2, 1.0, False),
        (None, None, True),
        (None, 1.0, False),
        (1.0, None, False),
    ],
)
def test_temperature(asked: float | None, stored: float | None, compatible: bool) -> None:  # noqa: FBT001
    """Within a tenth, both ways; an unknown default equals itself only."""
    assert is_compatible(asked, stored) == compatible


def test_tolerance_is_a_setting() -> None:
    """Zero means equal."""
    assert not is_compatible(0.7, 0.71, 0.0)
    assert is_compatible(0.7, 0.7, 0.0)
    assert is_compatible(0.2, 0.7, 0.5)
