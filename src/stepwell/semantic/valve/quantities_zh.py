"""Finds the numbers of Chinese text."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from stepwell.semantic.valve.date import timeless
from stepwell.semantic.valve.numerals import chinese, digits
from stepwell.semantic.valve.reading import Reading
from stepwell.semantic.valve.tables import lines
from stepwell.semantic.valve.units import Unit, longest, units


class Numeral(NamedTuple):
    """A number with at least one Chinese numeral, or in a Chinese construction."""

    start: int
    end: int
    value: Fraction
    ordinal: bool = False
    unit: Unit | None = None
    noun: str = ""
    """The two characters behind, if they are no unit."""


_SIGNS = frozenset("零〇二两三四五六七八九十百千万亿半第俩仨首")
_DIGITS = r"\d[\d,]*(?:\.\d+)?"
_FIGURE = r"(?:[零〇一二三四五六七八九十百万亿两]|千(?![米克瓦卡帕赫伏焦]))"
_NOT_NEXT = "(?!(?<=[百千万亿][一二三四五六七八九])[年个天月周期])"
"""``一万一年`` is ten thousand in a year, not eleven thousand years."""

_HAN = rf"(?:{_DIGITS})?(?:{_FIGURE}{_NOT_NEXT})+(?:\d+[千百万亿](?:{_FIGURE}{_NOT_NEXT})*)*"
_HALVED = (
    "小时|公[里斤]|英里|[个年月斤价瓶杯数分两片粒颗页勺匙碗块里米升亩吨盒包袋盘份根张条桶箱克磅句]"
)
"""What is halved. 半天 is mostly a long while."""
_MEASURES = (
    "个|小时|钟头|分钟|公[里斤]|千克|英里"
    "|[年天周斤两里米升吨亩克磅片粒颗页勺匙碗块瓶杯盒包袋盘份根张条桶箱圈倍]"
)
_NO_HALF = "[夜途路载数价径年天个岛熟球场身空边]"
"""Behind these characters 半 begins another word: 第一天半夜; but 一个半月."""
_NUMBER = re.compile(
    rf"(?P<below>{_HAN}|{_DIGITS})分之(?P<above>{_HAN}|{_DIGITS})"
    rf"|(?P<nth>第) ?(?P<place>{_HAN}|{_DIGITS})"
    rf"|(?P<half>一半|半(?={_HALVED}))"
    rf"|(?P<more>{_HAN}|{_DIGITS}) ?(?P<measure>{_MEASURES})半(?!{_NO_HALF})"
    r"|(?P<both>俩|仨)"
    r"|(?P<head>首)(?=[次个部任位家代场届款批本条名期轮支架])"
    rf"|(?P<sign>负|零下)?(?P<whole>{_HAN})(?:点(?P<point>[零〇一二三四五六七八九]{{1,18}}))?"
)
_COUNTED = frozenset(
    "个只条张本件台部辆次回遍种类样位名人口家所间层楼章节课集季期届代级句字篇首道题步套双对组群排行列颗粒根支枝把杯"
    "瓶碗盒箱袋包片块滴股笔单款门场局轮倍维角边大线星折成页胎阶段程环度点天倍者座栋幢棵朵匹头尾盘份幅封项则站厘"
)
"""What must stand behind one Chinese figure to make it a number."""


def is_measure(word: str) -> bool:
    """Return whether a word only stands between a number and what it counts: 头, 个."""
    return word in _COUNTED


_RECKONING = frozenset("加减乘除以于")
_RECKONED = frozenset("加减乘除")


def numerals(reading: Reading) -> tuple[Numeral, ...]:
    """Return the Chinese numbers of a text in their order, without those of dates."""
    if reading.prose.isascii() or _SIGNS.isdisjoint(reading.prose):
        return ()
    return tuple(_find(timeless(reading)))


def _find(text: str) -> Iterator[Numeral]:
    words = _no_numbers().sub(lambda found: "\x00" * len(found[0]), text)
    for found in _NUMBER.finditer(words):
        if found["more"]:
            yield _and_a_half(found, text)
            continue
        value = _value(found)
        if value is None:
            continue
        ordinal = bool(found["nth"] or found["head"])
        behind = found.end() + (text[found.end() : found.end() + 1] in _ABOUT)
        unit = units()["%"] if found["below"] in _HUNDRED else longest(text, behind)[0]
        if not (ordinal or unit or _counts(found, text[behind : behind + 1])):
            continue
        behind += text[behind : behind + 1] in _COUNTED
        noun = "" if unit else re.sub(r"[\W\d_]", "", text[behind : behind + 2])
        yield Numeral(found.start(), found.end(), value, ordinal, unit, noun)


def _and_a_half(found: re.Match[str], text: str) -> Numeral:
    """Read 一个半小时, 一小时半, 两片半."""
    more, measure = found["more"], found["measure"]
    value = digits(more) if more[0].isdecimal() and more[-1].isdecimal() else chinese(more)
    # 个 stands before the unit, all others behind the number are one or count the thing.
    counted = measure + text[found.end() : found.end() + 2] if measure == "个" else measure
    unit = longest(counted, 0)[0]
    noun = "" if unit else re.sub(r"[\W\d_]", "", text[found.end() : found.end() + 2])
    return Numeral(found.start(), found.end(), value + Fraction(1, 2), unit=unit, noun=noun)


_ABOUT = frozenset("多几来余")
_HUNDRED = frozenset(("百", "一百", "100"))


@cache
def _no_numbers() -> re.Pattern[str]:
    listed = [word for line in lines("numeral_words.txt") for word in line.split()]
    pattern = "|".join(sorted(map(re.escape, listed), key=len, reverse=True))
    return re.compile(
        rf"(?<![\d一二三四五六七八九十百千零])(?:{pattern}|十分(?![钟之]))"
        # We two, and some tens of something.
        r"|(?<=[们咱])(?:两个?|俩|三个?)(?!月|星期|小时)|[几数好][十百千万亿]+"
    )


def _value(found: re.Match[str]) -> Fraction | None:
    if found["below"]:
        below, above = chinese(found["below"]), chinese(found["above"])
        if found["below"] in _HUNDRED:
            return above
        return above / below if below else None
    if found["head"]:
        return Fraction(1)
    if found["half"]:
        return Fraction(1, 2)
    if found["both"]:
        return Fraction(2 if found["both"] == "俩" else 3)
    value = chinese(found["place"] or found["whole"])
    if found["point"]:
        point = found["point"]
        value += chinese(f"零{point}") / 10 ** len(point)
    return -value if found["sign"] else value


def _counts(found: re.Match[str], behind: str) -> bool:
    """Return whether a match is a number: more than one figure, or something to count behind."""
    whole = found["whole"]
    if whole is None or len(whole) > 1 or found["sign"] or found["point"]:
        return True
    if whole in "一百千万亿零〇":
        return False
    before = found.string[found.start() - 1 : found.start()] if found.start() else ""
    is_reckoned = before in _RECKONING or behind in _RECKONED
    return behind in _COUNTED or is_reckoned or not behind.isalpha()
