"""What Chinese says of time."""

import re
from collections.abc import Iterable

from stepwell.semantic.valve.moments import Finder, Mark, Rule, calendar, clock
from stepwell.semantic.valve.numerals import chinese

_WEEKDAYS = {char: n for n, char in enumerate("一二三四五六日", 1)} | {"天": 7}
_WEEKDAYS |= {str(n): n for n in range(1, 7)}
_WHICH = {"上": "last", "下": "next", "这": "this", "本": "this", "当": "this", "去": "last"}
_WHICH |= {
    "今": "this",
    "明": "next",
    "上个": "last",
    "下个": "next",
    "这个": "this",
    "前": "before last",
}
_WHICH |= {"后": "after next", "上上": "before last", "下下": "after next"}
_UNITS = {
    "周": "week",
    "星期": "week",
    "礼拜": "week",
    "月": "month",
    "月份": "month",
    "年": "year",
    "年度": "year",
    "季度": "quarter",
    "学期": "semester",
    "赛季": "season",
    "世纪": "century",
}
_NEAR = {
    "今": "today",
    "明": "tomorrow",
    "昨": "yesterday",
    "后": "day after tomorrow",
    "前": "day before yesterday",
    "大后": "in three days",
    "大前": "three days ago",
}
_PARTS = {
    "早上": "morning",
    "早晨": "morning",
    "清晨": "morning",
    "上午": "morning",
    "凌晨": "morning",
    "中午": "noon",
    "下午": "afternoon",
    "傍晚": "evening",
    "晚上": "evening",
    "夜里": "evening",
    "半夜": "evening",
    "深夜": "evening",
}
_HALF = {
    "下午": "pm",
    "傍晚": "pm",
    "晚上": "pm",
    "晚": "pm",
    "今晚": "pm",
    "明晚": "pm",
    "昨晚": "pm",
}
_HALF |= {"早上": "am", "早晨": "am", "上午": "am", "凌晨": "am", "清晨": "am", "早": "am"}
_QUARTERS = {"半": 30, "一刻": 15, "三刻": 45}
_SEASONS = {"春": 1, "夏": 2, "秋": 3, "冬": 4}
_BOUNDS = {"之前": "before", "以前": "before", "前": "before", "年底前": "before"}
_BOUNDS |= {
    "之后": "after",
    "以后": "after",
    "后": "after",
    "以来": "from",
    "至今": "from",
    "起": "from",
}

_NUMBER = r"(\d{1,2}|[一二三四五六七八九十]{1,3})"
_YEAR = r"((?:1\d|20)\d{2}|[一二]?[〇零一二三四五六七八九]{3}|[5-9]\d|0\d)"


def _year_of(text: str) -> int:
    year = int(chinese(text)) if not text.isdigit() else int(text)
    if year < 100:  # noqa: PLR2004
        year += 2000 if year < 50 else 1900  # noqa: PLR2004
    return year


def _iso(found: re.Match[str]) -> Iterable[Mark]:
    return calendar(int(found[1]), int(found[2]), int(found[3]))


def _date(found: re.Match[str]) -> Iterable[Mark]:
    year, month, day = found.groups()
    return calendar(
        _year_of(year) if year else None,
        int(chinese(month)),
        int(chinese(day)) if day else None,
    )


def _years(found: re.Match[str]) -> Iterable[Mark]:
    return (Mark("year", _year_of(found[1])), Mark("year", _year_of(found[2])))


def _year(found: re.Match[str]) -> Iterable[Mark]:
    year = _year_of(found[1])
    yield Mark("year", year)
    if found[2]:
        yield Mark("bound", f"{_BOUNDS[found[2]]} {year}")


def _day(found: re.Match[str]) -> Iterable[Mark]:
    return calendar(None, None, int(chinese(found[1])))


def _decade(found: re.Match[str]) -> Iterable[Mark]:
    decade = int(chinese(found[1]))
    yield Mark("decade", decade % 100 if decade < 2000 else decade)  # noqa: PLR2004


def _weekday(found: re.Match[str]) -> Iterable[Mark]:
    if found[1]:
        yield Mark("relative", f"{_WHICH[found[1]]} week")
    yield Mark("weekday", _WEEKDAYS[found[2]])


def _time(found: re.Match[str]) -> Iterable[Mark]:
    part, hour, quarter, minute = found.groups()
    minutes = _QUARTERS[quarter] if quarter else int(chinese(minute)) if minute else 0
    yield from _part_of(part)
    yield from clock(int(chinese(hour)), minutes, _HALF.get(part or "", ""))


def _digital(found: re.Match[str]) -> Iterable[Mark]:
    yield from _part_of(found[1])
    yield from clock(int(found[2]), int(found[3]), _HALF.get(found[1] or "", ""))


def _part_of(part: str | None) -> Iterable[Mark]:
    """Yield the day that a part of the day names, as ``今晚`` does, and the part itself."""
    if part and part[0] in _NEAR and len(part) > 1:
        yield Mark("relative", _NEAR[part[0]])
    name = _PARTS.get(part or "")
    if name:
        yield Mark("part", name)


def _near(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("relative", _NEAR[found[1] or found[3]])
    part = (found[2] or found[4]).translate({ord("夜"): "晚"})
    if part in _HALF:
        yield Mark("part", "evening" if part == "晚" else "morning")
        yield Mark("half", _HALF[part])


def _which(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("relative", f"{_WHICH[found[1]]} {_UNITS[found[2]]}")


def _this_year(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("relative", f"{_WHICH[found[1]]} year")


def _season(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("season", _SEASONS[found[1]])


def _quarter(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("quarter", int(chinese(found[1])))


def _every(found: re.Match[str]) -> Iterable[Mark]:
    units = {"天": "day", "日": "day", "晚": "night", "小时": "hour", "周": "week", "星期": "week"}
    yield Mark("every", units.get(found[1]) or _UNITS[found[1]])


def _part(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("part", _PARTS[found[0]])
    if found[0] in _HALF:
        yield Mark("half", _HALF[found[0]])


def _week_part(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("part of the week", "weekend" if found[1] else "weekday")


def _lunar(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("calendar", "lunar" if found[0] in {"农历", "阴历"} else "solar")


_OF_DAY = "|".join(sorted({*_PARTS, *_HALF}, key=len, reverse=True))


def _rule(cues: str, pattern: str, finder: Finder) -> Rule:
    return Rule(frozenset(cues), re.compile(pattern), finder)


RULES: tuple[Rule, ...] = (
    _rule("0", r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)", _iso),
    _rule(
        "月",
        rf"(?<![个\d那这每第])(?:{_YEAR} ?年 ?)?{_NUMBER} ?月(?!息)"
        rf"(?:份(?!额)| ?{_NUMBER} ?(?:日|号|(?![\d个年月天次点本元块万千百日号])))?",
        _date,
    ),
    _rule("年", rf"(?<!\d){_YEAR} ?年? ?(?:-|~|到|至) ?{_YEAR} ?年", _years),
    _rule("年", r"(?:(?:20|二十) ?世纪 ?)?(?<!\d)(\d{2,4}|[一二三四五六七八九]十) ?年代", _decade),
    _rule(
        "年",
        rf"(?<![\d.]){_YEAR} ?年(之前|以前|之后|以后|以来|至今|起|前|后)?(?![级代龄纪薪])",
        _year,
    ),
    _rule("0", r"(?<![\d.])(1[5-9]\d{2}|20\d{2})(?! ?[\d年.,个元块人字分米克-])()", _year),
    _rule("初", r"(?<![世纪月年])初([一二三四五六七八九十])(?![次步始级中高直])", _day),
    _rule(
        "周星礼",
        r"(上上|下下|上|下|这|本)?(?:个)?(?:星期|周|礼拜)([一二三四五六日天1-6])(?![年个岁次\d])",
        _weekday,
    ),
    _rule("0", rf"({_OF_DAY})?的? ?(\d{{1,2}}):(\d{{2}})(?!\d)", _digital),
    _rule(
        "点时",
        rf"({_OF_DAY})?的? ?(?<!第)(?!一点(?!钟|半)){_NUMBER} ?"
        r"(?:点(?![评赞击餐名心数]|[零〇一二三四五六七八九](?![十分]))|时(?![间候代尚常]))钟?"
        r"(?:(半|一刻|三刻)"
        r"| ?(\d{1,2}|[二三四五]?十[一二三四五六七八九]?|[零〇]?[一二三四五六七八九](?=分))分?)?",
        _time,
    ),
    _rule("日号", rf"(?<![\d.个几]){_NUMBER} ?(?:日(?![元本语常子])|号)", _day),
    _rule("天日晚早夜", r"(?:(今|明|昨)(天|日|晚|早|夜)|(大后|大前|后|前)(天))(?!报)", _near),
    _rule("年", r"(今|明|去|前|后)年", _this_year),
    _rule(
        "周星礼月年季学赛世",
        r"(上上|下下|上|下|这|本|当)个?(周|星期|礼拜|月份?|年度?|季度|学期|赛季|世纪)(?![末经亮])",
        _which,
    ),
    _rule("季", r"第? ?([一二三四1-4]) ?季度", _quarter),
    _rule("春夏秋冬", r"(春|夏|秋|冬)(?:天|季)", _season),
    _rule("每", r"每(?:个)?(天|日|晚|小时|周|星期|月|季度|年)", _every),
    _rule("历", r"农历|阴历|阳历|公历", _lunar),
    _rule("早晨上凌中下傍晚夜半深清", "|".join(_PARTS), _part),
    _rule("周工", r"(周末)|工作日", _week_part),
)
"""In this order: the longest and surest first."""

SIGNS = frozenset(cue for rule in RULES for cue in rule.cues)
"""A text without any of these says nothing of time; ``0`` stands for any digit."""
