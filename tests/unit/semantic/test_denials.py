"""Denied pairs and narrowed entries."""

from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import Partition
from stepwell.keys.pair import pair_of
from stepwell.semantic.denials import Denials
from stepwell.testing.entries import make_judgement, make_key

HERE = Partition(bytes(32))
THERE = Partition(bytes([1] * 32))
KEY = make_key("entry")


def judged(one: str, other: str, similarity: float = 0.95, verdict: str = "wrong") -> Judgement:
    return make_judgement(pair_of(HERE, one, other), KEY, similarity, Verdict(verdict))


def test_a_pair_is_denied_both_ways_and_only_here() -> None:
    """Another tenant's judgement, or another prompt's, says nothing here."""
    denials = Denials()
    denials.note(judged("a", "b"))
    assert denials.forbids(HERE, "a", "b")
    assert denials.forbids(HERE, "b", "a")
    assert not denials.forbids(THERE, "a", "b")
    assert not denials.forbids(HERE, "a", "c")


def test_the_latest_judgement_counts() -> None:
    """Somebody erred, and says so."""
    denials = Denials()
    denials.note(judged("a", "b"))
    denials.note(judged("a", "b", verdict="right"))
    assert not denials.forbids(HERE, "a", "b")
    assert denials.floor(KEY) == 0.0
    assert len(denials) == 0
    denials.note(judged("a", "b"))
    assert denials.forbids(HERE, "a", "b")


def test_an_entry_is_as_narrow_as_its_worst_failure() -> None:
    """And widens again when that is taken back."""
    denials = Denials()
    denials.note(judged("a", "b", 0.93))
    denials.note(judged("a", "c", 0.97))
    denials.note(judged("a", "d", 0.95))
    assert denials.floor(KEY) == 0.97
    denials.note(judged("a", "c", 0.97, verdict="right"))
    assert denials.floor(KEY) == 0.95
    assert denials.floor(make_key("other")) == 0.0


def test_loading_forgets_what_was_known() -> None:
    """After the feed was lost."""
    denials = Denials()
    denials.note(judged("a", "b"))
    denials.load([judged("c", "d"), judged("c", "d", verdict="right"), judged("e", "f")])
    assert not denials.forbids(HERE, "a", "b")
    assert not denials.forbids(HERE, "c", "d")
    assert denials.forbids(HERE, "e", "f")


def test_a_right_judgement_of_an_unknown_pair() -> None:
    """Changes nothing."""
    denials = Denials()
    denials.note(judged("a", "b", verdict="right"))
    assert len(denials) == 0


def test_a_pair_has_one_name() -> None:
    """Texts do not run into each other, and may hold anything."""
    assert pair_of(HERE, "ab", "c") != pair_of(HERE, "a", "bc")
    assert pair_of(HERE, "", "") != pair_of(HERE, "", "x")
    assert pair_of(HERE, "\ud800", "x") == pair_of(HERE, "x", "\ud800")
