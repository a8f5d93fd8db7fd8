"""Which blocks others may be evicted for."""

from support.kv_shelves import BLOCK, prompt

from stepwell.prefix.admission import Adaptive, Admission, FirstSight, SecondSight


def worthy(admission: Admission, *numbers: int, held: int = 0, scope: bytes = b"a") -> int:
    """Return for how many of a prompt's blocks others may be evicted."""
    tokens = prompt(*numbers)[: 4 * BLOCK * len(numbers)]
    return admission.worthy_blocks(scope, tokens, BLOCK, held)


def test_first_sight() -> None:
    """Everything is worth it."""
    assert worthy(FirstSight(), 1, 2, 3) == 3


def test_second_sight_is_of_prefixes() -> None:
    """A block counts as seen only behind the same blocks, in the same scope."""
    admission = SecondSight()
    assert worthy(admission, 1, 2, 3) == 0
    assert worthy(admission, 1, 2, 4) == 2
    assert worthy(admission, 5, 2, 3) == 0
    assert worthy(admission, 1, 2, 3, scope=b"b") == 0
    assert worthy(admission, 1, 2, 3) == 3


def test_what_was_seen_long_ago_is_forgotten() -> None:
    """The memory of it is bounded."""
    admission = SecondSight(100)
    worthy(admission, 1)
    for number in range(2, 200):
        worthy(admission, number)
    assert len(admission._sightings._new) + len(admission._sightings._old) <= 100
    assert worthy(admission, 1) == 0


def test_adaptive_waits_for_a_second_sight_only_while_it_is_crowded() -> None:
    """Blocks that come back after they had to leave show that the cache is too small."""
    admission = Adaptive()
    for _ in range(3):
        for number in range(0, 8_000, 100):
            worthy(admission, *range(number, number + 100))
    assert admission.crowded
    assert worthy(admission, 1, 2, 3) == 0
    for number in range(10_000, 60_000, 100):
        worthy(admission, *range(number, number + 100))
    assert not admission.crowded
    assert worthy(admission, 4, 5, 6) == 3


def test_adaptive_does_not_count_what_is_held() -> None:
    """Hits are no sign of crowding, however many there are."""
    admission = Adaptive()
    for turn in range(100, 300):
        worthy(admission, *range(turn), held=turn - 1 if turn > 100 else 0)
    for _ in range(200):
        worthy(admission, *range(300), held=299)
    assert not admission.crowded
