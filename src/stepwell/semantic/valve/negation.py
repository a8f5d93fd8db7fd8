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
_KEEP = fold("keep")
_KEPT_FROM = frozenset((_KEEP, "from"))
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
    affixed: frozenset[str]
    """Folds that may be a denial of another word: unlucky, useless."""


def denials(reading: Reading) -> Denials:
    """Return the denials of a text."""
    mine = outline(reading)
    words = denial_english.denials(mine.english)
    if mine.han:
        words += denial_chinese.denials(mine.han)
    affixed = [word for word in mine.vocabulary if word.startswith(_PREFIXES) or word[-3:] == "les"]
    return Denials(words, frozenset(affixed) - _NO_DENIAL)


def weak(reading: Reading) -> frozenset[str]:
    """Return words that may say in one text what a denial says in another: broken, not working."""
    mine = outline(reading)
    found = _WEAK_ENGLISH.intersection(mine.vocabulary)
    found |= {word for word in mine.vocabulary if _LIKE_A_DENIAL.match(word)}
    found |= _KEPT_FROM if mine.vocabulary >= _KEPT_FROM else frozenset()
    if mine.han:
        found |= {word for word in denial_chinese.WEAK if word in mine.han}
    return found


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
    affixed = _affixed(asked, stored)
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
    return _unmatched(asked, stored)


def is_denied(asked: Reading, stored: Reading) -> bool:
    """Return whether one text has an odd number of words that deny more than the other."""
    return (len(asked.fact(denials).words) - len(stored.fact(denials).words)) % 2 == 1


def _unmatched(asked: Reading, stored: Reading) -> Difference | None:
    """Return the denials, unless the text with fewer says it in other words: broken, failed."""
    mine, theirs = asked.fact(denials).words, stored.fact(denials).words
    fewer, larger = (asked, stored) if len(mine) <= len(theirs) else (stored, asked)
    if fewer.fact(weak) - larger.fact(weak):
        return None
    return Difference(Kind.NEGATION, " ".join(mine), " ".join(theirs))


def _reversed(ours: Outline, others: Outline) -> Difference | None:
    """Return a verb like "avoid" that is all that one text has more than the other."""
    mine, theirs = ours.content - others.content, others.content - ours.content
    for one, other in ((mine, theirs), (theirs, mine)):
        is_reversed = len(one) == 1 and one <= _REVERSING and other <= _CAUSING
        # To keep from doing is to avoid it.
        if is_reversed and not (_KEEP in other and "from" in ours.vocabulary | others.vocabulary):
            return Difference(Kind.NEGATION, " ".join(sorted(mine)), " ".join(sorted(theirs)))
    return None


def _affixed(asked: Reading, stored: Reading) -> list[tuple[str, str]]:
    ours, others = outline(asked).vocabulary, outline(stored).vocabulary
    mine, theirs = ours - others, others - ours
    if not mine or not theirs or len(mine) + len(theirs) > _COMPARED:
        return []
    affixed = asked.fact(denials).affixed ^ stored.fact(denials).affixed
    if not affixed:
        return []
    return sorted(
        (one, other)
        for one in mine
        for other in theirs
        if (one in affixed and _denies(one, other)) or (other in affixed and _denies(other, one))
    )


def _denies(word: str, base: str) -> bool:
    """Return whether ``word``, one of `Denials.affixed`, is ``base`` with the affix."""
    if len(base) < _SHORTEST:
        return False
    if word.endswith(base):
        return word[: -len(base)] in _PREFIXES
    return word.endswith("les") and word[:-3] == base.removesuffix("ful")
