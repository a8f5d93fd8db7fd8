"""Which segments are merged."""

from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.index.tiers import Size, choose


def chosen(*lives: int, rows: dict[int, int] | None = None, fan: int = 4) -> list[int]:
    """Return the live rows of the segments chosen, where a tier begins with 10 rows."""
    sizes = [
        Size(str(number), (rows or {}).get(number, live), live) for number, live in enumerate(lives)
    ]
    names = choose(sizes, first_rows=10, fan=fan, dead_share=0.25)
    return [lives[int(name)] for name in names]


def test_nothing_is_merged_without_need() -> None:
    """Few segments of a size, or none at all."""
    assert chosen() == []
    assert chosen(5, 6, 7) == []
    assert chosen(5, 6, 7, 40, 41, 200) == []


def test_a_full_tier_becomes_one() -> None:
    """Together with everything smaller, not with what is larger."""
    assert chosen(5, 6, 7, 8, 40) == [5, 6, 7, 8]
    assert chosen(5, 40, 39, 38, 37, 200) == [5, 40, 39, 38, 37]


def test_dead_rows_are_left_behind() -> None:
    """A quarter may be dead, not more."""
    assert chosen(75, rows={0: 100}) == []
    assert chosen(74, 3, 500, rows={0: 100}) == [74, 3]
    assert chosen(0, rows={0: 8}) == [0]


@given(st.lists(st.integers(1, 12), max_size=300), st.integers(2, 5))
def test_rows_are_written_once_a_tier(flushes: list[int], fan: int) -> None:
    """Merging whenever it is due leaves few segments, and writes each row a few times."""
    segments: list[int] = []
    written = 0
    for rows in flushes:
        segments.append(rows)
        while names := choose(
            [Size(str(n), live, live) for n, live in enumerate(segments)],
            first_rows=10,
            fan=fan,
            dead_share=0.25,
        ):
            taken = {int(name) for name in names}
            merged = sum(segments[n] for n in taken)
            written += merged
            segments = [live for n, live in enumerate(segments) if n not in taken] + [merged]
    total, tiers = sum(flushes), 1
    while 10 * fan**tiers < total:
        tiers += 1
    assert sum(segments) == total
    assert len(segments) <= (fan - 1) * (tiers + 1)
    # A tier of rows of its own, and once more as the small ones beside a larger merge.
    assert written <= 2 * (tiers + 1) * total
