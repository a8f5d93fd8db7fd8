"""Names and identifiers."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.names import Mention, Name, alternatives, names, plain
from stepwell.semantic.valve.reading import Reading, Script, Word


class Proper(NamedTuple):
    """A name that no list knows."""

    text: str
    """Plain, case-folded."""
    index: int


class Entities(NamedTuple):
    """What a text names."""

    known: tuple[Mention, ...]
    proper: tuple[Proper, ...]
    codes: tuple[str, ...]
    """Identifiers, plain."""
    alternatives: dict[str, frozenset[str]]
    """Members by kind."""


def entity(asked: Reading, stored: Reading) -> Difference | None:
    """Return the first name or identifier that stands in one text only."""
    one, other = asked.fact(_entities), stored.fact(_entities)
    return (
        _other_code(asked, stored)
        or _other_name(asked, stored)
        or _other_alternative(one.alternatives, other.alternatives)
    )


def _difference(left: str, right: str) -> Difference | None:
    return Difference(Kind.ENTITY, left, right) if left or right else None


def _other_code(asked: Reading, stored: Reading) -> Difference | None:
    one, other = asked.fact(_entities).codes, stored.fact(_entities).codes
    if one == other:
        return None
    return _difference(_missing_code(one, stored), _missing_code(other, asked))


def _missing_code(codes: tuple[str, ...], other: Reading) -> str:
    there = other.fact(_squashed)
    return next((code for code in codes if squash(code) not in there), "")


def squash(text: str) -> str:
    """Return the letters and digits of a text, with the signs that make another name."""
    return re.sub(r"[^\w+#]|_", "", text)


def _squashed(reading: Reading) -> str:
    return squash(reading.prose.casefold())


def _other_name(asked: Reading, stored: Reading) -> Difference | None:
    missing = _missing_names(asked, stored), _missing_names(stored, asked)
    if not any(missing):
        return None
    firsts = [next(iter(found), None) for found in missing]
    if all(firsts):
        return _difference(firsts[0][0], firsts[1][0])
    for side, found in enumerate(missing):
        reading = (asked, stored)[side]
        other = (stored, asked)[side]
        for name, first, behind in found:
            if not _is_addition(reading, other, first, behind):
                return _difference(*((name, "") if side == 0 else ("", name)))
    return None


def _missing_names(of: Reading, other: Reading) -> list[tuple[str, int, int]]:
    mine, theirs = of.fact(_entities), other.fact(_entities)
    known = {mention.name for mention in theirs.known}
    missing = [
        (mention.name.name, mention.first, mention.behind)
        for mention in mine.known
        if mention.name not in known
        and not _stands(of.words[mention.first : mention.behind], other)
    ]
    for proper in mine.proper:
        if not _has(other, of.words[proper.index], proper.text):
            missing.append((proper.text, proper.index, proper.index + 1))
    return missing


def _stands(words: tuple[Word, ...], other: Reading) -> bool:
    return all(plain(word.text) in other.fact(_forms) for word in words)


def _forms(reading: Reading) -> frozenset[str]:
    forms: set[str] = set()
    for word in reading.words:
        text = plain(word.text)
        forms |= {text, text.removesuffix("s"), *text.split("-")}
    return frozenset(forms)


def _has(other: Reading, word: Word, text: str) -> bool:
    if word.script is Script.HAN:
        return text in other.prose
    forms = other.fact(_forms)
    if text in forms or text.removesuffix("s") in forms:
        return True
    if all(part in forms for part in text.split("-")):
        return True
    return squash(text) in other.fact(_squashed) or text in other.fact(_initials)


def _initials(reading: Reading) -> str:
    return "".join(word.text[0] for word in reading.words if word.script is Script.LATIN)


def _is_addition(reading: Reading, other: Reading, first: int, behind: int) -> bool:
    return False


def _other_alternative(
    one: dict[str, frozenset[str]], other: dict[str, frozenset[str]]
) -> Difference | None:
    for kind in one.keys() & other.keys():
        left, right = one[kind] - other[kind], other[kind] - one[kind]
        if left and right:
            return _difference(min(left), min(right))
    return None


def _entities(reading: Reading) -> Entities:
    words = reading.words
    known = tuple(names().find(words))
    taken = {i for mention in known for i in range(mention.first, mention.behind)}
    members: dict[str, set[str]] = {}
    for mention in alternatives().find(words):
        members.setdefault(mention.name.kind, set()).add(mention.name.name)
    return Entities(
        known,
        tuple(_proper(reading, taken)),
        tuple(_codes(reading, taken)),
        {kind: frozenset(found) for kind, found in members.items()},
    )


_CODE = re.compile(r"(?=.*\d)(?=.*[^\W\d])[\w.\-']+")
_NAME_AND_NUMBER = re.compile(r"([^\W\d_]{2,}(?:-[^\W\d_]+)*)-?\d+(?:\.\d+)*|v\.?\d[\d.]*")


def _codes(reading: Reading, taken: set[int]) -> Iterator[str]:
    for index, word in enumerate(reading.words):
        if index in taken:
            continue
        if word.script is Script.IDENTIFIER:
            yield re.sub(r"^https?://(?:www\.)?|/$", "", word.text)
        elif word.script is Script.LATIN and word.text[-1:] and _CODE.fullmatch(word.text):
            if not _NAME_AND_NUMBER.fullmatch(word.text):
                yield word.text


_NO_NAMES = frozenset(
    "i i'm i've i'll i'd ok vs pls plz asap faq eg ie etc am pm mr mrs ms dr a q".split()
)


def _proper(reading: Reading, taken: set[int]) -> Iterator[Proper]:
    if reading.is_chinese:
        for index, word in enumerate(reading.words):
            if index in taken:
                continue
            if word.script is Script.LATIN and len(word.text) > 1:
                yield Proper(word.text, index)
            elif word.tag in TAGS and len(word.text) > 1:
                yield Proper(word.text, index)
        return
    latin = [w for w in reading.words if w.script is Script.LATIN]
    capital = sum(w.written[0].isupper() for w in latin)
    if capital * 2 > len(latin) and len(latin) > 3:
        return
    initial = True
    for index, word in enumerate(reading.words):
        if word.script is Script.LATIN:
            text = plain(word.text)
            inner = word.written[1:].lower() != word.written[1:]
            if (
                index not in taken
                and text not in _NO_NAMES
                and (inner or (word.written[0].isupper() and not initial))
            ):
                named = _NAME_AND_NUMBER.fullmatch(text)
                if named and named[1]:
                    yield Proper(named[1], index)
                elif not named and not _CODE.fullmatch(text):
                    yield Proper(text, index)
        initial = word.text in '.?!:\n"([' or (initial and word.script is Script.SYMBOL)


TAGS = {"ns", "nt", "nrt", "nr", "nz"}
