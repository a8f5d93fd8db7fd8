"""Numbers in words: English and Chinese.

Values are fractions, exact and hashable: ``0.1`` is a tenth.
"""

import re
from collections.abc import Sequence
from fractions import Fraction

MAX_DIGITS = 18
"""A longer run of digits is a code, not a number to reckon with."""

MAX_WORDS = 12
"""Words of one English number."""

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_CARDINALS = {word: n for n, word in enumerate(_SMALL)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_SCALES = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_SMALL_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
).split()
ORDINALS = (
    {word: n for n, word in enumerate(_SMALL_ORDINALS)}
    | {word[:-1] + "ieth": value for word, value in _CARDINALS.items() if word in _TENS}
    | {f"{word}th": value for word, value in _SCALES.items()}
    | {
        f"{ten}-{one}": 10 * n + m
        for n, ten in enumerate(_TENS, 2)
        for m, one in enumerate(_SMALL_ORDINALS)
        if 0 < m < 10  # noqa: PLR2004 - twenty-ninth is followed by thirtieth
    }
)
"""English ordinals in one word, and what they count."""

_HYPHENED = {
    f"{ten}-{one}": 10 * n + m
    for n, ten in enumerate(_TENS, 2)
    for m, one in enumerate(_SMALL[:10])
    if m
}
_PARTS = {"dozen": 12, "dozens": 12}
NUMBER_WORDS = frozenset(_CARDINALS.keys() | _SCALES.keys() | _HYPHENED.keys() | _PARTS.keys())
"""English words a number may consist of; ``and`` and ``a`` may stand between or before."""


def english(words: Sequence[str]) -> Fraction:
    """Return the value of a run of `NUMBER_WORDS`: ``two hundred and five``, ``nineteen eighty``.

    Years in two halves (``nineteen eighty-four``) are read as years.
    """
    total, current = 0, 0
    for word in words[:MAX_WORDS]:
        if word in _SCALES:
            scale = _SCALES[word]
            current = max(current, 1) * scale
            if scale > _SCALES["hundred"]:
                total, current = total + current, 0
        elif word in _PARTS:
            current = max(current, 1) * _PARTS[word]
        else:
            value = _CARDINALS.get(word, 0) or _HYPHENED.get(word, 0)
            current = _append(current, value)
    return Fraction(total + current)


def _append(current: int, value: int) -> int:
    """Return what ``value`` makes of the number before it: ``twenty one``, ``twenty ten``."""
    room = current % 100 == 0 or (current % 10 == 0 and value < 10)  # noqa: PLR2004
    return current + value if room else current * 100 + value


_CHINESE_DIGITS = {char: n for n, char in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "俩": 2,
    "仨": 3,
    "壹": 1,
    "贰": 2,
    "叁": 3,
    "肆": 4,
    "伍": 5,
    "陆": 6,
    "柒": 7,
    "捌": 8,
    "玖": 9,
}
_CHINESE_TENS = {"十": 10, "百": 100, "千": 1000, "拾": 10, "佰": 100, "仟": 1000}
_CHINESE_SCALES = {"万": 10**4, "亿": 10**8}
CHINESE_NUMERAL = "零〇一二三四五六七八九十百千万亿两"
"""Characters a Chinese number is written with, without those of cheques."""

_RUN = re.compile(r"\d[\d,]*(?:\.\d+)?|.")


def chinese(numeral: str) -> Fraction:
    """Return the value of a Chinese numeral, as ``一百二十``, ``1.2万``, ``两万三``.

    Digits in a row are read one by one: ``二〇二四``.
    """
    if all(char in _CHINESE_DIGITS for char in numeral):
        return Fraction(int("".join(str(_CHINESE_DIGITS[c]) for c in numeral[:MAX_DIGITS]) or 0))
    total = section = current = Fraction(0)
    last, after_zero = Fraction(1), False
    for part in _RUN.findall(numeral[: 2 * MAX_DIGITS]):
        if part in _CHINESE_TENS:
            last = Fraction(_CHINESE_TENS[part])
            section, current = section + (current or 1) * last, Fraction(0)
        elif part in _CHINESE_SCALES:
            last = Fraction(_CHINESE_SCALES[part])
            total, section, current = (total + (section + current or 1) * last, *_NOTHING)
        else:
            after_zero = part in "零〇"
            current = (
                digits(part) if part[0].isdecimal() else Fraction(_CHINESE_DIGITS.get(part, 0))
            )
            continue
        after_zero = False
    if current and last > 10 and not after_zero and _is_short(numeral):  # noqa: PLR2004
        current = current * last / 10
    return total + section + current


_NOTHING = (Fraction(0), Fraction(0))


def _is_short(numeral: str) -> bool:
    """Return whether the last digit stands for the next lower place: ``一百五``, ``两万三``."""
    return (
        len(numeral) > 1
        and numeral[-1] in _CHINESE_DIGITS
        and (numeral[-2] in _CHINESE_SCALES or numeral[-2] in _CHINESE_TENS)
    )


def digits(text: str) -> Fraction:
    """Return the value of digits with a point and perhaps commas. At most `MAX_DIGITS` count."""
    whole, _, part = text.replace(",", "").partition(".")
    if not part:
        return Fraction(int(whole[:MAX_DIGITS] or 0))
    return Fraction(f"{whole[:MAX_DIGITS] or '0'}.{part[:MAX_DIGITS] or '0'}")
