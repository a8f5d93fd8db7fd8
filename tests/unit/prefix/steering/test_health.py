"""Whether a replica may be given work."""

from stepwell.prefix.placement.replicas import Condition
from stepwell.prefix.steering.health import LONGEST_PAUSE_SECONDS, Health


def test_one_that_fails_is_left_out_longer_and_longer() -> None:
    health, now, pauses = Health(), 100.0, []
    for _ in range(8):
        health.failed(now)
        pauses.append(health.out_until - now)
        assert health.condition(now + pauses[-1] - 0.01, draining=False) is Condition.DOWN
        now += pauses[-1]
        assert health.condition(now, draining=False) is Condition.READY
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert max(pauses) == LONGEST_PAUSE_SECONDS


def test_one_call_is_let_through_at_a_time() -> None:
    health = Health()
    health.failed(0.0)
    assert health.condition(1.0, draining=False) is Condition.READY
    health.tried(1.0)
    assert health.condition(1.5, draining=False) is Condition.DOWN
    health.worked()
    assert health.condition(1.5, draining=False) is Condition.READY


def test_one_that_works_is_not_held_back() -> None:
    health = Health()
    health.tried(0.0)
    assert health.condition(0.0, draining=False) is Condition.READY


def test_draining() -> None:
    health = Health()
    assert health.condition(0.0, draining=True) is Condition.DRAINING
    health.failed(0.0)
    assert health.condition(0.5, draining=True) is Condition.DOWN
