"""One text is the other and one stretch more."""

from collections.abc import Callable
from typing import NamedTuple

from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import HAN, SYMBOL, Reading

NOT_COUNTED = frozenset("a an the my your our his her their this that then please".split())
"""Words that add nothing."""


class Addition(NamedTuple):
    """What one text adds."""

    start: int
    """Place of the first token added, in the outline."""
    end: int
    """Place behind the last."""
    said: tuple[str, ...]
    """Folds, and Chinese characters: words may be cut elsewhere in the other text."""


def only_in_one(
    find: Callable[[Reading, Reading], str], asked: Reading, stored: Reading
) -> tuple[str, str] | None:
    """Return what ``find`` finds that one text says more than the other, whichever that is."""
    words = find(asked, stored)
    if words:
        return words, ""
    words = find(stored, asked)
    return ("", words) if words else None


def addition(longer: Reading, shorter: Reading) -> Addition | None:
    """Return the stretch that is all ``longer`` adds to ``shorter``, which it holds word for word.

    Signs, articles and the like do not count. Linear.
    """
    more, rest = outline(longer), outline(shorter)
    if not rest.han and not rest.content <= more.vocabulary:
        return None
    mine, theirs = longer.fact(_said), shorter.fact(_said)
    added = len(mine) - len(theirs)
    if added <= 0 or not theirs:
        return None
    before = 0
    while before < len(theirs) and mine[before][0] == theirs[before][0]:
        before += 1
    behind = [what for what, _ in mine[before + added :]]
    if behind != [what for what, _ in theirs[before:]]:
        return None
    stretch = mine[before : before + added]
    return Addition(stretch[0][1], stretch[-1][1] + 1, tuple([what for what, _ in stretch]))


def _said(reading: Reading) -> tuple[tuple[str, int], ...]:
    """Return what is said, Chinese by its characters, each with the place of its token."""
    return tuple(
        [
            (part, place)
            for place, token in enumerate(outline(reading).tokens)
            if token.script is not SYMBOL and token.text not in NOT_COUNTED
            for part in _parts(token)
        ]
    )


def _parts(token: Token) -> str | tuple[str]:
    return token.text if token.script is HAN else (token.fold,)
