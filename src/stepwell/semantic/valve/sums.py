"""What is reckoned with what: nine minus four is four subtracted from nine; 十二除以三, 三除十二.

The numbers are the same and often in the same order, where the words turn them around.
"""

import re
from fractions import Fraction
from typing import NamedTuple

from stepwell.semantic.valve.date import timeless
from stepwell.semantic.valve.numerals import NUMBER_WORDS, chinese, digits, english
from stepwell.semantic.valve.quantities import quantities
from stepwell.semantic.valve.reading import Reading


class Sum(NamedTuple):
    """One operation."""

    sign: str
    left: str
    """The value of a number, or a letter."""
    right: str


_WORD = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?"
_ENGLISH = rf"(?:{_FIGURE}|(?:{_WORD})(?:[ -](?:{_WORD}))*|[a-z])"
_HAN = "[零一二两三四五六七八九十百千万亿]+"
_CHINESE = rf"(?:{_FIGURE}|{_HAN}(?:点{_HAN})?|[a-z])"
_WORDS = frozenset("ais")
_LONGEST = 2_000
"""Characters. Longer texts tell of much besides, and a run of numerals costs its square."""
_TURNED = "turned"
_BOTH_WAYS = frozenset("+*")


def _between(words: str) -> re.Pattern[str]:
    """Find an operation between its numbers; the second may be the first of the next."""
    return re.compile(rf"\b({_ENGLISH}) ?(?:{words}) ?(?=({_ENGLISH})\b)")


def _before(words: str, between: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words}) ({_ENGLISH}) (?:{between}) ({_ENGLISH})\b(?! [a-z]+s\b)")


def _in_chinese(words: str) -> re.Pattern[str]:
    return re.compile(rf"({_CHINESE}) ?(?:{words}) ?(?=({_CHINESE}))")


_OPERATIONS = (
    ("+", "", _between(r"\+|plus\b|added to\b")),
    ("+", "", _before("add|adding|sum of", "to|and")),
    ("+", "", _in_chinese("加上?")),
    ("*", "", _between(r"[*×]|times\b|multiplied by\b")),
    ("*", "", _before("multiply|multiplying|product of", "by|and|with")),
    ("*", "", _in_chinese("乘[以上]?")),
    ("-", "", _between(r"-|minus\b|take away\b|subtract\b|less\b(?! than)")),
    ("-", _TURNED, _before("subtract|subtracting|take|taking|take away|deduct", "from")),
    ("-", _TURNED, _between("(?:is )?(?:subtracted|taken|deducted) from")),
    ("-", "", _in_chinese("[里中]?面?减[去掉]?")),
    ("/", "", _between("[/÷]|divided by")),
    ("/", "", _before("divide|dividing", "by")),
    # Behind "into" stands what is divided, unless it is the number of parts: into 4 groups.
    ("/", _TURNED, _before("divide|dividing", "into")),
    ("/", _TURNED, _between("divided into|goes into|go into")),
    ("/", "", _in_chinese("除以")),
    ("/", _TURNED, _in_chinese("去?除")),
    ("^", "", _between(r"\^|to the power of|raised to")),
    ("^", "", re.compile(rf"({_CHINESE})的({_CHINESE})次[方幂]")),
)
_CUES = re.compile(
    r"[+*×÷^/\-加乘减除方幂]|\b(?:plus|add|sum|times|multipl|product|minus|tak|subtract|less|deduct"
    r"|divid|go|power|raised)"
)


def sums(reading: Reading) -> frozenset[Sum]:
    """Return the operations of a text. What may be turned around without harm is sorted."""
    text = timeless(reading)
    if len(text) > _LONGEST or not (_has_operands(reading) and _CUES.search(text)):
        return frozenset()
    found: set[Sum] = set()
    for sign, way, pattern in _OPERATIONS:
        for one, other in pattern.findall(text):
            pair = [_value(one), _value(other)]
            if way == _TURNED:
                pair.reverse()
            if sign in _BOTH_WAYS:
                pair.sort()
            found.add(Sum(sign, *pair))
    return frozenset(found)


def _has_operands(reading: Reading) -> bool:
    """Return whether a text has two numbers, or a letter that is no word."""
    letters = {word for word in reading.vocabulary if len(word) == 1 and word.isascii()}
    return len(quantities(reading)) > 1 or any(letter.isalpha() for letter in letters - _WORDS)


def _value(operand: str) -> str:
    if operand[0].isdecimal():
        return str(digits(operand))
    if not operand.isascii():
        whole, _, part = operand.partition("点")
        return str(chinese(whole) + chinese(f"零{part}") / 10 ** len(part))
    value: Fraction | str = operand if len(operand) == 1 else english(re.split("[ -]", operand))
    return str(value)


def shown(found: frozenset[Sum]) -> str:
    """Return operations as one writes them."""
    return ", ".join(sorted(f"{one.left} {one.sign} {one.right}" for one in found))
