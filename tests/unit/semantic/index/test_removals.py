"""What was removed lately."""

from support.points import make_id

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position
from stepwell.semantic.index import removals
from stepwell.semantic.index.removals import RecentRemovals, Removal

KEY = CacheKey(make_id("key"))


def test_the_later_removal_of_a_key_counts() -> None:
    """In whatever order they come."""
    recent = RecentRemovals()
    recent.add_key(KEY, Position(5))
    recent.add_key(KEY, Position(3))
    assert recent.keys() == {KEY: 5}


def test_selectors_go_once_they_are_in_the_segments() -> None:
    """Those at or before the position."""
    recent = RecentRemovals()
    recent.add_selector(Selector(tag="a"), Position(4))
    recent.add_selector(Selector(tag="b"), Position(5))
    assert recent.selectors_after(Position(4)) == [Removal(Position(5), Selector(tag="b"))]
    recent.forget_selectors_to(Position(4))
    assert recent.selectors_after(Position(0)) == [Removal(Position(5), Selector(tag="b"))]


def test_there_is_a_bound() -> None:
    """The oldest are forgotten."""
    recent = RecentRemovals()
    for number in range(removals._KEYS + 5):
        recent.add_key(CacheKey(make_id(str(number))), Position(1))
        recent.add_selector(Selector(tag=str(number)), Position(1))
    assert len(recent.keys()) == removals._KEYS
    assert CacheKey(make_id("4")) not in set(recent.keys())
    assert len(recent.selectors_after(Position(0))) == removals._SELECTORS
