"""The order in which blocks leave a shelf."""

from support.kv_shelves import scope

from stepwell.prefix.record import Kind, Record, Root
from stepwell.prefix.shelves import Level
from stepwell.prefix.tails import Tails


def record(rank: float, kind: Kind = Kind.PROMPT) -> Record:
    """Return a block that may leave."""
    made = Record(Root(scope(), 4, (1, 1, 1)), None, kind, 0.0)
    made.level, made.rank = Level.EXACT, rank
    return made


def test_lowest_rank_first_output_before_prompts() -> None:
    """By kind, then by rank, then in the order of offers."""
    tails = Tails(Level.EXACT)
    first, second, third, output = record(1), record(2), record(2), record(9, Kind.OUTPUT)
    for one in (second, third, first, output, first):
        tails.offer(one)
    assert [tails.pop() for _ in range(5)] == [output, first, second, third, None]


def test_ranks_that_rose_meanwhile_count() -> None:
    """A use moves nothing; it is noticed when the block comes up."""
    tails = Tails(Level.EXACT)
    first, second = record(1), record(2)
    tails.offer(first)
    tails.offer(second)
    first.rank = 3
    assert [tails.pop(), tails.pop()] == [second, first]


def test_what_may_not_leave_is_dropped_until_it_is_offered_again() -> None:
    """Held, followed or elsewhere: forgotten."""
    tails = Tails(Level.EXACT)
    held, followed, gone = record(1), record(2), record(3)
    for one in (held, followed, gone):
        tails.offer(one)
    held.holds, followed.heirs[Level.EXACT], gone.level = 1, 1, None
    assert tails.pop() is None
    held.holds = 0
    tails.offer(held)
    assert tails.pop() is held


def test_leftovers_do_not_pile_up() -> None:
    """Blocks that left by another door take no room for long."""
    tails = Tails(Level.EXACT)
    for number in range(10_000):
        one = record(number)
        tails.offer(one)
        one.level = None
    assert len(tails) < 1_000
