"""Refuses words that mean the opposite, or the other direction."""

from collections.abc import Callable

from stepwell.semantic.valve.alignment import is_reversed
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.hindering import other_aim
from stepwell.semantic.valve.negation import is_denied
from stepwell.semantic.valve.opposites import Opposites, opposed, shipped
from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.phrasal import other_particle
from stepwell.semantic.valve.reading import Reading
from stepwell.semantic.valve.settings import reset
from stepwell.semantic.valve.undone import undone


def compare_by(opposites: Opposites) -> Callable[[Reading, Reading], Difference | None]:
    """Return a check that compares by a dictionary of opposites."""

    def compare(asked: Reading, stored: Reading) -> Difference | None:
        pair = opposed(asked.fact(opposites.find), stored.fact(opposites.find))
        if pair is None:
            return None
        # "Not safe" and "dangerous" are the same.
        if is_denied(asked, stored) and not pair[0].denies and not pair[1].denies:
            return None
        # "A is higher than B" and "B is lower than A" are the same.
        if is_reversed(outline(asked), outline(stored)):
            return None
        return Difference(Kind.ANTONYM, pair[0].word, pair[1].word)

    return compare


def antonym(asked: Reading, stored: Reading) -> Difference | None:
    """Compare by the opposites that come with the package, and by what is done to a thing."""
    found = compare_by(shipped())(asked, stored)
    if found is not None:
        return found
    for other in (reset, undone, other_aim, other_particle):
        words = other(asked, stored)
        if words is not None:
            return Difference(Kind.ANTONYM, *words)
    return None
