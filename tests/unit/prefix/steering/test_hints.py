"""What the semantic layer says of questions that go on to a model server."""

from stepwell.core.names import CacheKey
from stepwell.prefix.steering.hints import MAX_HINTS, NearHints


def key(number: int) -> CacheKey:
    return CacheKey(number.to_bytes(32, "big"))


def test_a_hint_is_taken_once_by_whom_it_is_for() -> None:
    hints = NearHints()
    hints.note(key(1), key(2), 0.7)
    assert hints.take(key(2)) is None
    assert hints.take(None) is None
    assert hints.take(key(1)) == key(2)
    assert hints.take(key(1)) is None


def test_the_last_one_counts() -> None:
    hints = NearHints()
    hints.note(key(1), key(2), 0.7)
    hints.note(key(1), key(3), 0.6)
    assert hints.take(key(1)) == key(3)


def test_those_that_nobody_takes_are_bounded() -> None:
    """As of questions that were answered by another's call."""
    hints = NearHints()
    for number in range(MAX_HINTS + 10):
        hints.note(key(number), key(0), 0.7)
    assert hints.take(key(9)) is None
    assert hints.take(key(10)) == key(0)
    assert hints.take(key(MAX_HINTS + 9)) == key(0)
