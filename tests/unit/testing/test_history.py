"""The checker of histories complains of what cannot have been, and of nothing else."""

from dataclasses import replace

from stepwell.testing.history import Findings, Get, Put, Removal, check

PUT = Put(1, "key", ("tag",), version=1, as_of=5, began=10.0, ended=11.0, stored=True)
NEWER = replace(PUT, version=2, began=20.0, ended=21.0)
FOUND = Get(1, "key", 1, began=50.0, ended=51.0)
MISSED = replace(FOUND, version=None)
GONE = Removal(1, None, "tag", after=5, until=6, began=30.0, ended=31.0, done=True)
BY_KEY = replace(GONE, key="key", tag=None)
OTHER_TAG = replace(GONE, tag="another")
UNKNOWN = replace(GONE, done=False, until=None)


def found(puts: list[Put], get: Get, *removals: Removal, lag_seconds: float = 1.0) -> Findings:
    return check(puts, [get], removals, lag_seconds=lag_seconds)


def test_what_was_stored_must_be_found() -> None:
    """Unless something may have made it go."""
    assert found([PUT], MISSED).lost == [MISSED]
    assert found([PUT], MISSED, OTHER_TAG).lost == [MISSED]
    for excuse in (GONE, BY_KEY, UNKNOWN, replace(GONE, began=50.5, ended=60.0)):
        assert found([PUT], MISSED, excuse).lost == []


def test_a_removal_before_the_question_is_no_excuse() -> None:
    """By the feed's positions; nor is one that began when nothing had been found."""
    late = replace(PUT, as_of=6)
    assert found([late], MISSED, GONE).lost == [MISSED]
    assert found([PUT], MISSED, replace(GONE, began=52.0, ended=53.0)).lost == [MISSED]


def test_what_nobody_knows_to_be_stored_may_be_missing() -> None:
    """Refused, failed, or not over yet."""
    for put in (replace(PUT, stored=False), replace(PUT, stored=None), replace(PUT, ended=50.5)):
        assert found([put], MISSED).lost == []


def test_what_was_written_over_it_may_have_gone() -> None:
    """The later one was asked before the removal, the earlier one after it."""
    first = replace(PUT, as_of=6)
    over = replace(NEWER, as_of=5)
    assert found([first, over], MISSED, GONE).lost == []
    assert found([first, replace(over, stored=False)], MISSED, GONE).lost == [MISSED]


def test_what_is_gone_must_not_be_found() -> None:
    """By its own worker at once, by others after a while; what is not sure is no fault."""
    assert found([PUT], FOUND, GONE).resurrected == [FOUND]
    assert found([PUT], FOUND, BY_KEY).resurrected == [FOUND]
    elsewhere = replace(GONE, worker=2)
    assert found([PUT], FOUND, elsewhere).resurrected == [FOUND]
    soon = found([PUT], replace(FOUND, began=31.5), elsewhere)
    assert (soon.resurrected, soon.obeyed_after_seconds) == ([], 0.5)
    for excuse in (UNKNOWN, OTHER_TAG, replace(GONE, ended=50.5)):
        assert found([PUT], FOUND, excuse).resurrected == []


def test_what_was_asked_after_the_removal_may_be_found() -> None:
    """Its position says so, or nobody knows."""
    later = replace(PUT, began=35.0, ended=36.0, as_of=6)
    assert found([later], FOUND, GONE).resurrected == []
    assert found([replace(later, as_of=5)], FOUND, GONE).resurrected == [FOUND]


def test_what_was_replaced_must_not_be_found() -> None:
    """By the worker that replaced it at once, by others after a while."""
    assert found([PUT, NEWER], FOUND).outdated == [FOUND]
    elsewhere = replace(NEWER, worker=2)
    assert found([PUT, elsewhere], FOUND).outdated == [FOUND]
    assert found([PUT, elsewhere], replace(FOUND, began=21.5)).outdated == []
    for harmless in (
        replace(NEWER, stored=None),
        replace(NEWER, began=10.5),
        replace(NEWER, ended=50.5),
        replace(NEWER, key="other"),
    ):
        assert found([PUT, harmless], FOUND).outdated == []
    assert found([PUT, NEWER], replace(FOUND, version=2)).outdated == []
