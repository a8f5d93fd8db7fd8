"""Finds the numbers of a text, with what they count."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from stepwell.semantic.valve.date import timeless
from stepwell.semantic.valve.figures import TOKEN, exact, fraction, parts
from stepwell.semantic.valve.numerals import (
    MAX_WORDS,
    NUMBER_WORDS,
    ORDINALS,
    digits,
    english,
)
from stepwell.semantic.valve.parts import FRACTIONS, in_smaller_unit, part_at
from stepwell.semantic.valve.quantities_zh import Numeral, is_measure, numerals
from stepwell.semantic.valve.reading import HAN, LATIN, NUMBER, Reading, Word
from stepwell.semantic.valve.units import Unit, cased, longest, units


class Quantity(NamedTuple):
    """One number of a text."""

    value: str
    """Comparable: ``15``, ``3/2``. A code of digits that is no number (``007``, ``3.10``) stays as
    it is written."""
    ordinal: bool = False
    unit: Unit | None = None
    noun: str = ""
    """The word behind it, if that is no unit; if there is none, ``<`` and the word before it."""


def _quantity(
    value: Fraction | str, unit: Unit | None = None, noun: str = "", *, ordinal: bool = False
) -> Quantity:
    return Quantity(str(value), ordinal, unit, noun)


def quantities(reading: Reading) -> tuple[Quantity, ...]:
    """Return the numbers of a text in their order, but for those that are part of a date."""
    return reading.fact(_quantities)


def has_single(reading: Reading) -> bool:
    """Return whether a text speaks of one thing in a word: ``a``, ``one``, ``一``."""
    return reading.fact(_has_single)


def has_pair(reading: Reading) -> bool:
    """Return whether a text speaks of two things in a word that is no numeral."""
    return not _PAIR.isdisjoint(reading.vocabulary)


def _has_single(reading: Reading) -> bool:
    return "一" in reading.prose or not _SINGLE.isdisjoint(reading.vocabulary)


_SINGLE = frozenset(("a", "an", "one", "single", "1"))
_PAIR = frozenset(("both", "pair", "couple", "two", "twin", "twins", "pairs", "couples"))


def _quantities(reading: Reading) -> tuple[Quantity, ...]:
    chinese = numerals(reading)
    if not (chinese or _MAYBE.search(reading.prose)) and _ENGLISH.isdisjoint(reading.vocabulary):
        return ()
    found = _Walk(reading, chinese).found()
    return tuple([_in_whole_units(quantity) for quantity in found])


def _in_whole_units(quantity: Quantity) -> Quantity:
    """Return half an hour as 30 minutes."""
    if quantity.unit is None or "/" not in quantity.value:
        return quantity
    value, unit = in_smaller_unit(quantity.value, quantity.unit)
    return quantity._replace(value=value, unit=unit)


_MULTIPLES = {"twice": 2, "thrice": 3, "double": 2, "triple": 3, "quadruple": 4}
_ROMAN = {"II": 2, "III": 3, "IV": 4, "VI": 6, "VII": 7, "VIII": 8, "IX": 9, "XI": 11, "XII": 12}
_ENGLISH = NUMBER_WORDS | ORDINALS.keys() | FRACTIONS.keys() | _MULTIPLES.keys()
_WITH_NUMBER = re.compile(r"(?:([a-z]{2,}(?:-[a-z]+)*)-?|v\.?)(\d+(?:\.\d+)*)")
"""``covid-19``, ``iphone15``, ``v2``: a name and a number. One letter makes a code: ``b12``."""

_ORDINAL_ENDINGS = frozenset(("st", "nd", "rd", "th"))
_MAGNITUDES = {"k": 10**3, "mn": 10**6, "mio": 10**6, "bn": 10**9, "tn": 10**12, "million": 10**6}
_MAGNITUDES |= {"hundred": 100, "thousand": 1000, "billion": 10**9, "trillion": 10**12}
_NOT_FIRST = frozenset("name aid hand clas lady place time step thing".split())
"""``first name``, ``for the first time``: nothing is counted there."""

_OWNERS = frozenset("the my your his her its our their whose which".split())
_NUMBERED = frozenset(
    "radio channel chapter part section episode season room gate terminal platform line page "
    "volume grade unit lesson phase tier type stage level number step formula".split()
)
"""Behind these ``one`` tells one from another."""
_VAGUE = frozenset("several few many some couple hundreds thousands millions billions".split())
_NO_NOUNS = frozenset(
    "a an the and or of in on at to from by for with is are was were be than as if that it i you "
    "we they he she my your more less other others do does did can should will how what".split()
)


_MAYBE = re.compile(r"[\d\-IVX](?:(?<=\d)|(?<=[A-Za-z]-)[A-Za-z]|(?<=\b[IVX])[IVX])")
"""Without this, no word but those of `_ENGLISH` counts anything. A search for a set of characters
is quick where none of them is."""


class _Walk:
    """One pass over the words of a text."""

    def __init__(self, reading: Reading, chinese: Sequence[Numeral]) -> None:
        text = timeless(reading)
        self._text = _LIST_MARK.sub(lambda found: "\x00" * len(found[0]), text)
        self._reading = reading
        self._words = reading.words
        self._chinese = {numeral.start: numeral for numeral in chinese}
        self._behind = 0
        """Words before this offset are dealt with."""

    def found(self) -> Iterator[Quantity]:
        """Yield the numbers in their order."""
        starts = iter(sorted(self._chinese))
        next_chinese = next(starts, None)
        for index, word in enumerate(self._words):
            while next_chinese is not None and next_chinese < word.end:
                yield self._of_chinese(self._chinese[next_chinese], index)
                next_chinese = next(starts, None)
            if word.start >= self._behind and self._text[word.start] != "\x00":
                yield from self._at(index)

    def _of_chinese(self, numeral: Numeral, index: int) -> Quantity:
        """Take over a number that begins in the word at ``index``."""
        self._behind = max(self._behind, numeral.end)
        unit = numeral.unit or self._prefix(index)
        return _quantity(numeral.value, unit, numeral.noun, ordinal=numeral.ordinal)

    def _at(self, index: int) -> Iterator[Quantity]:
        word = self._words[index]
        if word.script is NUMBER:
            yield from self._of_token(index)
        elif word.text in NUMBER_WORDS:
            yield from self._of_words(index)
        elif word.text in ORDINALS:
            yield from self._of_ordinal(index)
        elif word.text in FRACTIONS:
            yield from self._of_fraction(index)
        elif word.text in {"a", "an"} and part_at(self._words, index + 2):
            yield self._counted(Fraction(1), index + 1)
        elif word.script is LATIN and (found := _of_one_word(word)):
            yield found

    def _of_fraction(self, index: int) -> Iterator[Quantity]:
        """Read ``half an hour`` and ``a quarter``; what follows a number is read with it."""
        word = self._word(index)
        behind = index + 1
        if word == "half":
            behind += self._word(behind) in {"a", "an"}
        elif self._word(index - 1) not in {"a", "an"}:
            return
        yield self._counted(Fraction(1, FRACTIONS[word]), behind)

    def _word(self, index: int) -> str:
        return self._words[index].text if 0 <= index < len(self._words) else ""

    def _of_token(self, index: int) -> Iterator[Quantity]:
        """Read what begins with a digit: one number, a range, a fraction, or a code."""
        token = self._words[index].text
        figures = parts(token)
        if figures is None:
            yield _quantity(token)
            return
        for value in figures[:-1]:
            yield _quantity(exact(value, unit=None))
        last = TOKEN.fullmatch(figures[-1])
        if last is None:
            part = fraction(figures[-1])
            yield _quantity(part) if isinstance(part, str) else self._counted(part, index + 1)
            return
        number, ending = last.groups()
        if ending in _ORDINAL_ENDINGS:
            yield _quantity(exact(number, unit=None), ordinal=True, noun=self._noun(index + 1))
        elif ending in _MAGNITUDES:
            yield self._counted(digits(number) * _MAGNITUDES[ending], index + 1, index)
        elif ending:
            written = self._words[index].written[-len(ending) :]
            unit = units().get(ending) or (
                cased(written, self._reading) if len(ending) > 1 else None
            )
            yield _quantity(exact(number, unit) if unit else token, unit=unit)
        else:
            yield self._of_digits(index, number)

    def _of_digits(self, index: int, number: str) -> Quantity:
        """Read a plain number, with a magnitude, a fraction, a unit or a noun behind."""
        behind = index + 1
        value = digits(number)
        while behind - index < MAX_WORDS and self._word(behind) in _MAGNITUDES:
            value *= _MAGNITUDES[self._word(behind)]
            behind += 1
        part = self._word(behind)
        if re.fullmatch(r"[1-9]/[1-9]", part):
            value += Fraction(part)
            behind += 1
        value, behind = self._with_part(value, behind)
        self._behind = self._words[behind - 1].end
        found = self._counted(value, behind, index)
        written = exact(number, found.unit)
        is_code = isinstance(written, str) and behind == index + 1
        return found._replace(value=str(written)) if is_code else found

    def _of_words(self, index: int) -> Iterator[Quantity]:
        """Read a number in words. ``one`` alone may be a pronoun: it is no number."""
        behind = index + 1
        run = [self._word(index)]
        while True:
            bridge = self._word(behind) == "and" and run[-1] in _MAGNITUDES
            following = self._word(behind + bridge)
            if following not in NUMBER_WORDS:
                break
            run.append(following)
            behind += bridge + 1
        value, behind = self._with_part(english(run), behind)
        self._behind = self._words[behind - 1].end
        if self._word(behind) in FRACTIONS and (value > 1 or self._word(behind)[-1] != "s"):
            yield self._counted(value / FRACTIONS[self._word(behind)], behind + 1)
            self._behind = self._words[behind].end
        elif self._word(index - 1) in _VAGUE and run[0] in _MAGNITUDES:
            return
        elif (
            run != ["one"]
            or value > 1
            or self._has_part(behind)
            or self._word(index - 1) in _NUMBERED
        ):
            yield self._counted(value, behind)

    def _of_ordinal(self, index: int) -> Iterator[Quantity]:
        word, before, noun = self._word(index), self._word(index - 1), self._noun(index + 1)
        if word == "second" and (before in {"a", "per", "each", "every"} or before.isdigit()):
            return
        if word == "first" and not self._is_counted_first(index, before, noun):
            return
        if word in FRACTIONS and before in {"a", "an"}:
            yield self._counted(Fraction(1, FRACTIONS[word]), index + 1)
        else:
            yield _quantity(Fraction(ORDINALS[word]), ordinal=True, noun=noun)

    def _is_counted_first(self, index: int, before: str, noun: str) -> bool:
        """Return whether ``first`` names one of several, and does not just say what comes soon."""
        is_name = self._words[index].written == "First" and index > 0
        return noun not in _NOT_FIRST and (is_name or before in _OWNERS or before.endswith("'s"))

    def _counted(self, value: Fraction, behind: int, index: int | None = None) -> Quantity:
        """Add the sign before, the unit or noun behind, and "and a half" behind that."""
        unit = self._unit(behind)
        if self._has_part(behind):
            value, behind_all = self._with_part(value, behind + 1)
            self._behind = self._words[behind_all - 1].end
        if unit is None and index is not None:
            unit = self._prefix(index)
        if index is not None and self._is_negative(index):
            value = -value
        noun = "" if unit else self._noun(behind)
        if index and not (unit or noun):
            noun = self._name(index - 1)
        return _quantity(value, unit=unit, noun=noun)

    def _with_part(self, value: Fraction, behind: int) -> tuple[Fraction, int]:
        """Add "and a half" at ``behind``, if it stands there."""
        part = part_at(self._words, behind)
        return (value + part, behind + 3) if part else (value, behind)

    def _has_part(self, index: int) -> bool:
        """Return whether "and a half" stands behind the thing at ``index``."""
        return self._word(index).isalpha() and bool(part_at(self._words, index + 1))

    def _unit(self, index: int) -> Unit | None:
        """Return the unit that stands at a word, of one or two words."""
        if self._word(index) == "-":
            index += 1
        if index >= len(self._words):
            return None
        word = self._words[index]
        if word.script is HAN:
            return longest(self._text, word.start)[0]
        pair = f"{word.text} {self._word(index + 1)}"
        joined = word.text + self._word(index + 1) if word.text == "°" else pair
        found = units().get(joined) or units().get(pair)
        return found or units().get(word.text) or cased(word.written, self._reading)

    def _prefix(self, index: int) -> Unit | None:
        """Return the currency before a word."""
        before = self._words[index - 1] if index else None
        if before is None:
            return None
        unit = units().get(
            self._word(index - 2) + before.text if before.text == "$" else before.text
        )
        unit = unit or units().get(before.text)
        return unit if unit is not None and unit.measures == "money" else None

    def _is_negative(self, index: int) -> bool:
        """Return whether a minus stands before a number, and nothing before the minus."""
        before = self._words[index - 1] if index else None
        if before is None:
            return False
        if before.text in {"负", "零下"}:
            return True
        if before.text in {"minus", "negative"}:
            return index < 2 or self._words[index - 2].script is not NUMBER  # noqa: PLR2004
        start = before.start
        return (
            before.text == "-"
            and before.end == self._words[index].start
            and (start == 0 or self._text[start - 1].isspace() or self._text[start - 1] in "(=<>")
        )

    def _name(self, index: int) -> str:
        """Return the word at ``index`` as a name that a number belongs to."""
        word = self._words[index]
        is_name = len(word.text) > 1 and word.script in {LATIN, HAN}
        return f"<{word.text}" if is_name and word.text not in _NO_NOUNS else ""

    def _noun(self, index: int) -> str:
        """Return the word at ``index`` as a noun in the singular."""
        if index >= len(self._words):
            return ""
        word = self._words[index]
        if word.script is HAN and index + 1 < len(self._words) and is_measure(word.text):
            counted = self._words[index + 1]
            return counted.text if counted.script is HAN else ""
        if word.script is not LATIN or word.text in _NO_NOUNS:
            return ""
        return word.text.removesuffix("'s").removesuffix("s")


def _of_one_word(word: Word) -> Quantity | None:
    """Read ``twice``, ``World War II``, ``iphone15``, ``two-step`` and ``five-year-old``."""
    if word.text in _MULTIPLES:
        times = units()["times"]
        return _quantity(Fraction(_MULTIPLES[word.text]), unit=times)
    if word.written in _ROMAN:
        return _quantity(Fraction(_ROMAN[word.written]))
    if named := _WITH_NUMBER.fullmatch(word.text):
        return _quantity(exact(named[2], unit=None))
    number, _, counted = word.text.partition("-")
    if not counted or number not in NUMBER_WORDS or number == "one":
        return None
    unit = units().get(counted)
    noun = "" if unit else counted.removesuffix("s")
    return _quantity(english([number]), unit=unit, noun=noun)


_LIST_MARK = re.compile(r"(?m)^\s*(?:\(\d{1,2}\)|\d{1,2} ?[.):、])(?!\d)|(?<=[ :;]) ?\d\) ")
