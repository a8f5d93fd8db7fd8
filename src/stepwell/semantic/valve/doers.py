"""Who does it to whom: what I pay my landlord, what my landlord pays me."""

from collections.abc import Iterator, Sequence

from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import Reading, Script

_DEEDS = frozenset(
    map(
        fold,
        """
        give pay owe tell send lend ask call help sue hire fire love like hate follow teach invite
        trust contact charge refund reimburse notify inform warn email text visit support
        beat kill attack bite eat chase protect blame thank forgive replace report need affect cause
        train feed ignore accept reject block represent sell show offer bring buy
        """.split(),
    )
)
"""Verbs of which the doer and the one it is done to may change places."""
_PERSONS = {"i": "i", "me": "i", "you": "you", "we": "we", "us": "we"}
_PERSONS |= {"he": "he", "him": "he", "she": "she", "her": "she", "they": "they", "them": "they"}
_BETWEEN = frozenset(
    "have has had to do does did can could will would should must may might need not ever never "
    "always often still also the a an my your our his their its this that these please".split()
)
"""What may stand between a verb and its doer, or it and the one it is done to."""
_BE = frozenset("is are was were be been being get got".split())


def deeds(reading: Reading) -> frozenset[tuple[str, str, str]]:
    """Return the verbs of a text, each with its doer and the one it is done to."""
    mine = outline(reading)
    if _DEEDS.isdisjoint(mine.vocabulary):
        return frozenset()
    return frozenset(_deeds(mine.tokens))


def _deeds(tokens: Sequence[Token]) -> Iterator[tuple[str, str, str]]:
    for index, token in enumerate(tokens):
        if token.fold in _DEEDS:
            doer = _beside(tokens[:index][::-1])
            other = _beside(tokens[index + 1 :])
            if doer and other:
                yield token.fold, doer, other


def _beside(tokens: Sequence[Token]) -> str:
    """Return the first person or thing of some words; nothing behind a form of "be"."""
    for token in tokens:
        if token.text in _PERSONS:
            return _PERSONS[token.text]
        if token.text in _BE or token.script is not Script.LATIN:
            return ""
        if token.has_content:
            return token.fold
        if token.text not in _BETWEEN:
            return ""
    return ""


def other_doer(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return who does it to whom, if in the other text that one does it to this one."""
    mine, theirs = asked.fact(deeds), stored.fact(deeds)
    for verb, doer, other in sorted(mine - theirs):
        if (verb, other, doer) in theirs and (verb, other, doer) not in mine:
            return f"{doer} {verb} {other}", f"{other} {verb} {doer}"
    return None
