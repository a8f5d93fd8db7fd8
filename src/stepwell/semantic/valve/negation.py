"""Refuses what one text denies and the other does not."""

import re
from dataclasses import dataclass

from stepwell.semantic.valve import denial_chinese, denial_english
from stepwell.semantic.valve.alignment import are_stories
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.opposites import opposed, shipped
from stepwell.semantic.valve.outline import Outline, outline
from stepwell.semantic.valve.reading import Reading

_WEAK_ENGLISH = frozenset(map(fold, denial_english.WEAK))
_LIKE_A_DENIAL = re.compile(r"un(?!de|til|i[tovqf]).{3}|dis.{4}|mis.{4}|.{3,}les$")
_REVERSING = frozenset(
    map(fold, "avoid stop prevent fail refuse quit forbid prohibit ban lack cease deny".split())
)
_CAUSING = frozenset(map(fold, "make cause keep start help allow".split()))
_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "mis", "de")
_COMPARED = 60
"""Words that differ; with more, two texts are not each other's wording."""
_SHORTEST = 3
"""Letters of a word an affix can deny."""
_NO_DENIAL = frozenset(
    "inform import design discover income input display discount unit impact insure define invest "
    "inside intern department derive detail depart detest intend intent invent inches industry "
    "informed immigrate demand deliver insight install indeed misuse insult unabl".split()
)


@dataclass(frozen=True, slots=True)
class Denials:
    """What a text denies, or seems to."""

    words: tuple[str, ...]
    """Those that deny outright."""
    weak: frozenset[str]
    """Words that may say in one text what a denial says in the other: broken, not working."""


def denials(reading: Reading) -> Denials:
    """Return the denials of a text."""
    mine = outline(reading)
    weak = _WEAK_ENGLISH.intersection(mine.vocabulary)
    weak |= {word for word in mine.vocabulary if _LIKE_A_DENIAL.match(word)}
    words = denial_english.denials(mine.english)
    if mine.han:
        words += denial_chinese.denials(mine.han)
        weak |= {word for word in denial_chinese.WEAK if word in mine.han}
    return Denials(words, weak)


def negation(asked: Reading, stored: Reading) -> Difference | None:
    """Return a difference if one text denies what the other states.

    Two denials take each other back ("not impossible", 不是不能), and so does an opposite ("not
    safe", "dangerous").
    """
    ours, others = outline(asked).han, outline(stored).han
    if ours and others and ours != others and denial_chinese.is_turned(ours, others):
        return Difference(
            Kind.NEGATION, "不" * (len(ours) > len(others)), "不" * (len(ours) < len(others))
        )
    affixed = _affixed(outline(asked), outline(stored))
    if len(affixed) % 2 == (1 if is_denied(asked, stored) else 0):
        is_like = not affixed and asked.fact(denials).words == stored.fact(denials).words
        return _reversed(outline(asked), outline(stored)) if is_like else None
    if affixed:
        return Difference(Kind.NEGATION, *affixed[0])
    pair = opposed(asked.fact(shipped().find), stored.fact(shipped().find))
    if pair and not pair[0].denies and not pair[1].denies:
        return None
    if are_stories(outline(asked), outline(stored)):
        return None
    return _unmatched(asked.fact(denials), stored.fact(denials))


def is_denied(asked: Reading, stored: Reading) -> bool:
    """Return whether one text has an odd number of words that deny more than the other."""
    return (len(asked.fact(denials).words) - len(stored.fact(denials).words)) % 2 == 1


def _unmatched(mine: Denials, theirs: Denials) -> Difference | None:
    """Return the denials, unless the text with fewer says it in other words: broken, failed."""
    fewer, larger = sorted((mine, theirs), key=lambda denials: len(denials.words))
    if fewer.weak - larger.weak:
        return None
    return Difference(Kind.NEGATION, " ".join(mine.words), " ".join(theirs.words))


def _reversed(ours: Outline, others: Outline) -> Difference | None:
    """Return a verb like "avoid" that is all that one text has more than the other."""
    mine, theirs = ours.content - others.content, others.content - ours.content
    for one, other in ((mine, theirs), (theirs, mine)):
        if len(one) == 1 and one <= _REVERSING and other <= _CAUSING:
            return Difference(Kind.NEGATION, " ".join(sorted(mine)), " ".join(sorted(theirs)))
    return None


def _affixed(ours: Outline, others: Outline) -> list[tuple[str, str]]:
    mine, theirs = ours.vocabulary - others.vocabulary, others.vocabulary - ours.vocabulary
    if not mine or not theirs or len(mine) + len(theirs) > _COMPARED:
        return []
    return sorted(
        (one, other)
        for one in mine
        for other in theirs
        if _denies(one, other) or _denies(other, one)
    )


def _denies(word: str, base: str) -> bool:
    """Return whether ``word`` is ``base`` with an affix that denies it; both folded."""
    if len(base) < _SHORTEST or word in _NO_DENIAL:
        return False
    if word.endswith(base):
        return word[: -len(base)] in _PREFIXES
    return word.endswith("les") and word[:-3] == base.removesuffix("ful")
