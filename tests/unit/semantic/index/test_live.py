"""Which rows may match: by state and by expiry, bit for bit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.index.live import LiveRows, RowState


def make_live(expires: list[float], removed: list[bool] | None = None) -> LiveRows:
    """Return rows that expire when ``expires`` says."""
    times = np.array(expires)
    order = np.argsort(times, kind="stable").astype(np.uint32)
    return LiveRows(times, times[order], order, None if removed is None else np.array(removed))


def live(rows: LiveRows) -> list[int]:
    """Return the rows whose bit is set."""
    return np.flatnonzero(rows.range(0, len(rows.states))).tolist()


def test_a_row_expires_at_its_time() -> None:
    """Not before it, and a clock that is set back brings it back."""
    rows = make_live([30.0, 10.0, 20.0])
    rows.follow(9.9)
    assert live(rows) == [0, 1, 2]
    assert rows.all_live()
    rows.follow(20.0)
    assert live(rows) == [0]
    assert rows.expired == 2
    rows.follow(10.0)
    assert live(rows) == [0, 2]
    rows.follow(0.0)
    assert live(rows) == [0, 1, 2]


def test_a_removed_row_stays_removed() -> None:
    """Whatever is said of it later."""
    rows = make_live([10.0] * 3)
    assert rows.mark(np.array([1]), RowState.REMOVED) == 1
    assert rows.mark(np.array([0, 1]), RowState.HELD) == 0
    assert not rows.remove(1)
    assert live(rows) == [0, 2]
    assert rows.removed == 1


def test_a_waiting_row_is_held_later() -> None:
    """Unless it has expired meanwhile."""
    rows = make_live([10.0, 20.0])
    rows.mark(np.array([0, 1]), RowState.WAITING)
    assert live(rows) == []
    assert rows.waiting == 2
    rows.follow(10.0)
    rows.mark(np.array([0, 1]), RowState.HELD)
    assert live(rows) == [1]
    assert rows.waiting == 0


def test_those_that_expire_first() -> None:
    """In order, and only live ones."""
    rows = make_live([50.0, 10.0, 40.0, 20.0, 30.0])
    rows.follow(10.0)
    rows.remove(3)
    assert rows.first_to_expire(2).tolist() == [4, 2]
    assert rows.first_to_expire(9).tolist() == [4, 2, 0]


changes = st.lists(
    st.one_of(
        st.floats(0, 100).map(lambda now: ("follow", now)),
        st.tuples(st.sets(st.integers(0, 19)), st.sampled_from(RowState)),
        st.integers(0, 19).map(lambda row: ("remove", row)),
    )
)


@given(st.lists(st.floats(0, 100), min_size=20, max_size=20), changes)
def test_as_a_plain_list(expires: list[float], changes: list[tuple[object, object]]) -> None:
    """Bits, counts and ranges agree with states and times kept one by one."""
    rows = make_live(expires)
    states = [RowState.HELD] * len(expires)
    now = -np.inf
    for change in changes:
        match change:
            case "follow", float(moment):
                rows.follow(moment)
                now = moment
            case "remove", int(row):
                rows.remove(row)
                states[row] = RowState.REMOVED
            case set(chosen), RowState() as state:
                rows.mark(np.array(sorted(chosen), np.intp), state)
                for row in chosen:
                    states[row] = state if states[row] != RowState.REMOVED else states[row]
        expected = [
            row for row, state in enumerate(states) if state == RowState.HELD and expires[row] > now
        ]
        assert live(rows) == expected
        assert rows.count() == len(expected)
        assert rows.removed == states.count(RowState.REMOVED)
        assert rows.waiting == states.count(RowState.WAITING)
        assert rows.range(3, 17).tolist() == [row in expected for row in range(3, 17)]
        assert rows.is_live(np.arange(20)).tolist() == [row in expected for row in range(20)]
