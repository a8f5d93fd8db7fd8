"""Finds names that no list knows: by their capitals, or as the Chinese tagger sees them."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from stepwell.semantic.valve.date import timeless
from stepwell.semantic.valve.names import plain
from stepwell.semantic.valve.numerals import NUMBER_WORDS, ORDINALS
from stepwell.semantic.valve.reading import IDENTIFIER, LATIN, SYMBOL, Reading, Script, Word
from stepwell.semantic.valve.units import is_unit


class Proper(NamedTuple):
    """A word that is a name by its looks."""

    text: str
    """Plain, case-folded."""
    script: Script
    is_sure: bool
    """It is written as nothing but a name is: ``NASA``, ``iPhone``."""


NAME_AND_NUMBER = re.compile(r"([^\W\d_]{2,}(?:-[^\W\d_]+)*)-?\d+(?:\.\d+)*")
"""``covid-19``, ``iphone15``: the number is compared as a number."""

_VERSION = re.compile(r"v\.?\d[\d.]*")
_TAGS = frozenset(("nr", "nrt", "ns", "nt"))
"""People, transcribed people, places, organisations. Often wrong: hence never sure."""

_NO_NAMES = frozenset(
    "入口 城市 东西 商城 谢谢 银行卡 明星 宝宝 宝贝 山坡 小镇 海洋 英雄 卡号 拜拜".split()
)
"""What the tagger takes for names most often."""

_COMMON = frozenset(
    "tv pc ceo cto cfo atm os ufo id it cv diy vip asap faq gp er icu ok pm am mr mrs ms dr vs "
    "eg ie etc url app usb led lcd html pdf hr pr qa ui ux api sim pin dvd cd ac tax gdp wifi "
    "wi-fi i i'm i've i'll i'd a q lol btw imo pls plz please not and or all any no".split()
)
"""In capitals for no reason but habit; another word often does as well."""

_TITLE_WORDS = frozenset(
    "a about after all an and are as at be best better between by can could did do does for "
    "from get go good great has have help how if in into is it learn like make most much my "
    "need new not of on one or other out should so some than that the their them there these "
    "they this to top use using want was way were what when where which who why will with "
    "without work would you your".split()
)
"""Whoever writes these with capitals writes a title."""


def propers(reading: Reading, taken: AbstractSet[int]) -> Iterator[Proper]:
    """Yield the names of a text, but for words with an index in ``taken``.

    In a text that is all capitals, or in title case, English names cannot be told.
    """
    if reading.is_chinese:
        yield from _chinese(reading, taken)
    elif _tells_names(reading):
        yield from _english(reading, taken)


def _chinese(reading: Reading, taken: AbstractSet[int]) -> Iterator[Proper]:
    for index, word in enumerate(reading.words):
        if index not in taken and len(word.text) > 1:
            if word.tag in _TAGS and word.text not in _NO_NAMES:
                yield Proper(word.text, word.script, is_sure=False)
            elif word.script is LATIN and (name := _name_of(word)):
                yield Proper(name, word.script, is_sure=False)


def _tells_names(reading: Reading) -> bool:
    latin = [word for word in reading.words if word.script is LATIN]
    capital = [word for word in latin if word.written[0].isupper()]
    if len(capital) * 2 <= len(latin):
        return bool(capital)
    return not any(word.text in _TITLE_WORDS for word in capital if word is not latin[0]) and not (
        all(word.written.isupper() for word in latin)
    )


def _english(reading: Reading, taken: AbstractSet[int]) -> Iterator[Proper]:
    words = reading.words
    capital = [at for at, word in enumerate(words) if word.written != word.text]
    for index in capital:
        word = words[index]
        if word.script is not LATIN or index in taken:
            continue
        if timeless(reading)[word.start] != "\x00":
            yield from _proper(word, is_initial=_is_initial(words, index))


def _is_initial(words: Sequence[Word], index: int) -> bool:
    """Return whether a word is the first, or the first behind a sign that begins a sentence."""
    for before in reversed(words[:index]):
        if before.script is SYMBOL and before.text in '.?!:("':
            return True
        if before.script is LATIN:
            return False
    return True


def _proper(word: Word, *, is_initial: bool) -> Iterator[Proper]:
    """Yield a word that is a name; no sentence begins with a capital within a word."""
    inner = word.written[1:]
    is_sure = inner.lower() != inner
    if is_sure or (word.written[0].isupper() and not is_initial):
        name = _name_of(word)
        if len(name) > 1:
            yield Proper(name, word.script, is_sure and name not in _COMMON)


def _name_of(word: Word) -> str:
    """Return what must be found in the other text; nothing if other checks look at the word."""
    text = plain(word.text)
    if text in NUMBER_WORDS or text in ORDINALS or is_unit(text) or _VERSION.fullmatch(text):
        return ""
    named = NAME_AND_NUMBER.fullmatch(text)
    if named:
        return named[1]
    return "" if any(char.isdecimal() for char in text) else text


def codes(reading: Reading, taken: AbstractSet[int]) -> Iterator[str]:
    """Yield identifiers, and what mixes letters and digits: ``b12``, ``x-200a``."""
    for index, word in enumerate(reading.words):
        if word.text.isalpha() or index in taken:
            continue
        if word.script is IDENTIFIER:
            yield re.sub(r"^https?://(?:www\.)?|/$", "", word.text)
        elif word.script is LATIN and _is_code(plain(word.text)):
            yield plain(word.text)


def _is_code(text: str) -> bool:
    if not any(char.isdecimal() for char in text):
        return False
    return not (NAME_AND_NUMBER.fullmatch(text) or _VERSION.fullmatch(text))
