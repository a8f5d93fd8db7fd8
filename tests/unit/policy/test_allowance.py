"""So many in a minute, and no more."""

from stepwell.policy.allowance import Allowance


def test_what_began_in_the_last_minute_counts() -> None:
    """Whatever was refused does not; a minute later there is room again, for each in its turn."""
    allowance = Allowance(2)
    moments = [0.0, 30.0, 59.9, 60.0, 60.1, 89.9, 90.0]
    assert [allowance.take(now) for now in moments] == [
        True, True, False, True, False, False, True
    ]  # fmt: skip
