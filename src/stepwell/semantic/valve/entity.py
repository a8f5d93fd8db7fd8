"""Names and identifiers."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.names import Mention, Name, Weight, mentions, plain
from stepwell.semantic.valve.part_names import other_part
from stepwell.semantic.valve.proper import Proper, codes, propers
from stepwell.semantic.valve.reading import HAN, IDENTIFIER, LATIN, SYMBOL, Reading, Script, Word
from stepwell.semantic.valve.units import units


class Entities(NamedTuple):
    """What a text names."""

    known: dict[Name, Mention]
    propers: tuple[Proper, ...]
    codes: tuple[str, ...]


class _Missing(NamedTuple):
    """A name of one text that the other lacks."""

    text: str
    must: bool


def entity(asked: Reading, stored: Reading) -> Difference | None:
    """Return the first name or identifier in which two texts differ.

    Identifiers, listed names, and words in capitals must stand in both. Where one text has a name
    that is only likely to be one, the other must have another name instead. And in Chinese, where
    nouns can be told, the same sentence must not be asked of another noun.
    """
    one, other = asked.fact(_entities), stored.fact(_entities)
    longer = other_part(asked, stored)
    if longer is not None:
        return _difference(*longer)
    if not any(one) and not any(other):
        return _other_noun(asked, stored)
    return (
        _difference(_missing_code(one, stored), _missing_code(other, asked))
        or _other_name(asked, stored)
        or _other_alternative(one, other)
        or _other_noun(asked, stored)
    )


def _difference(left: str, right: str) -> Difference | None:
    return Difference(Kind.ENTITY, left, right) if left or right else None


def _entities(reading: Reading) -> Entities:
    known: dict[Name, Mention] = {}
    taken: set[int] = set()
    for mention in reading.fact(mentions):
        known.setdefault(mention.name, mention)
        if mention.name.weight is not Weight.ALTERNATIVE:
            taken.update(range(mention.first, mention.behind))
    return Entities(known, tuple(propers(reading, taken)), tuple(codes(reading, taken)))


def _missing_code(of: Entities, other: Reading) -> str:
    return next((code for code in of.codes if _squash(code) not in other.fact(_squashed)), "")


def _squashed(reading: Reading) -> str:
    return _squash(reading.prose.casefold())


def _squash(text: str) -> str:
    """Return the letters and digits of a text, and the signs that make another name of them."""
    return re.sub(r"[^\w+#]|_", "", text)


def _other_name(asked: Reading, stored: Reading) -> Difference | None:
    one, other = list(_missing(asked, stored)), list(_missing(stored, asked))
    if one and other:
        return _difference(one[0].text, other[0].text)
    for missing in (*one, *other):
        if missing.must:
            return _difference(missing.text if one else "", missing.text if other else "")
    return None


def _missing(of: Reading, other: Reading) -> Iterator[_Missing]:
    mine, theirs = of.fact(_entities), other.fact(_entities)
    for name, mention in mine.known.items():
        if name.weight is Weight.ALTERNATIVE or name in theirs.known:
            continue
        words = of.words[mention.first : mention.behind]
        if not all(_has(other, plain(word.text), word.script) for word in words):
            yield _Missing(name.text, name.weight is Weight.MUST and not _is_maker(of, mention))
    for proper in mine.propers:
        if not _has(other, proper.text, proper.script):
            yield _Missing(proper.text, proper.is_sure)


def _is_maker(reading: Reading, mention: Mention) -> bool:
    """Return whether a company's name stands before a product's: ``Microsoft Excel``."""
    if mention.name.kind != "company" or mention.behind >= len(reading.words):
        return False
    product = reading.words[mention.behind]
    return product.written[0].isupper() or product.script is IDENTIFIER


def _has(other: Reading, text: str, script: Script) -> bool:
    """Return whether a text holds a name, perhaps written a little differently."""
    if script is HAN:
        return text in other.prose
    forms = other.fact(_forms)
    singular = text.removesuffix("s")
    if text in forms or singular in forms or all(part in forms for part in text.split("-")):
        return True
    if text in other.fact(_initials) or _squash(text) in other.fact(_squashed):
        return True
    if len(text) < _LONG or len(forms) > _MANY:
        return False
    return any(is_slip(text, form) for form in forms)


_LONG = 6
"""In shorter words one letter makes another name: Iran, Iraq."""

_MANY = 200
"""Among so many words nobody looks for slips: every name would have to be held against each."""


def is_slip(one: str, other: str) -> bool:
    """Return whether two words differ in one letter: missing, changed, or swapped with the next.

    Only long words: in others one letter makes another name.
    """
    if min(len(one), len(other)) < _LONG:
        return False
    if abs(len(one) - len(other)) > 1 or one[0] != other[0]:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    ends = {(one[start + a :], other[start + b :]) for a, b in ((1, 1), (1, 0), (0, 1))}
    swapped = one[start : start + 2] == other[start : start + 2][::-1]
    return any(a == b for a, b in ends) or (swapped and one[start + 2 :] == other[start + 2 :])


def _forms(reading: Reading) -> frozenset[str]:
    """Return the words of a text as a name may be found among them."""
    forms: set[str] = set()
    for text in map(plain, reading.vocabulary):
        forms |= {text, text.removesuffix("s"), *text.split("-")}
        forms.add(text.rstrip("0123456789.-"))
    return frozenset(forms)


def _initials(reading: Reading) -> str:
    return "".join([word.text[0] for word in reading.words if word.script is LATIN])


def _other_alternative(one: Entities, other: Entities) -> Difference | None:
    """Return two words of one kind of which each text has one."""
    left, right = _alternatives(one), _alternatives(other)
    for kind in left.keys() & right.keys():
        mine, theirs = left[kind] - right[kind], right[kind] - left[kind]
        if mine and theirs:
            return _difference(min(mine), min(theirs))
    return None


def _alternatives(entities: Entities) -> dict[str, set[str]]:
    members: dict[str, set[str]] = {}
    for name in entities.known:
        if name.weight is Weight.ALTERNATIVE:
            members.setdefault(name.kind, set()).add(name.text)
    return members


def _other_noun(asked: Reading, stored: Reading) -> Difference | None:
    """Return two Chinese nouns if the texts are the same but for them.

    Nouns that share a character mostly mean the same: ``女孩``, ``小女孩``; and so do units of one
    name: ``小时``, ``钟头``.
    """
    if not (asked.is_chinese and stored.is_chinese):
        return None
    left = _only_in(asked, stored)
    right = _only_in(stored, asked) if len(left) == 1 else []
    if len(right) != 1 or not (left[0].tag.startswith("n") and right[0].tag.startswith("n")):
        return None
    shared = set(left[0].text).intersection(right[0].text)
    is_unit = left[0].text in units() and units()[left[0].text] == units().get(right[0].text)
    return None if shared or is_unit else _difference(left[0].text, right[0].text)


def _only_in(reading: Reading, other: Reading) -> list[Word]:
    there = other.vocabulary
    words = {word.text: word for word in reading.words if word.script is not SYMBOL}
    return [word for text, word in words.items() if text not in there]
