"""What English says of time."""

import re
from collections.abc import Iterable

from stepwell.semantic.valve.moments import DIGITS, Finder, Mark, Rule, calendar, clock
from stepwell.semantic.valve.numerals import NUMBER_WORDS, english

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_MONTH_OF = {name: n for n, name in enumerate(_MONTHS, 1)}
_MONTH_OF |= {name[:3]: n for name, n in _MONTH_OF.items()} | {"sept": 9}
_WORDS_TOO = {"may", "march", "mar", "dec", "sep", "jan", "jun"}
"""Months that are also words or names: only after a preposition, or beside a number."""

_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_DAY_OF = {name: n for n, name in enumerate(_DAYS, 1)}
_DAY_OF |= {f"{name}s": n for name, n in _DAY_OF.items()}
_DAY_OF |= {"mon": 1, "tue": 2, "tues": 2, "weds": 3, "thu": 4, "thur": 4, "thurs": 4, "fri": 5}
_DAY_OF |= {"wed": 3, "sat": 6, "sun": 7}

_BOUNDS = {
    "since": "from",
    "before": "before",
    "prior to": "before",
    "pre": "before",
    "by": "before",
    "after": "after",
    "post": "after",
    "until": "until",
    "till": "until",
    "up to": "until",
}
_WHICH = {
    "last": "last",
    "past": "last",
    "previous": "last",
    "this": "this",
    "current": "this",
    "next": "next",
    "coming": "next",
    "upcoming": "next",
}
_EVERY = {
    "hourly": "hour",
    "daily": "day",
    "nightly": "night",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annual": "year",
    "annually": "year",
}
_PARTS = {
    "morning": "morning",
    "afternoon": "afternoon",
    "evening": "evening",
    "night": "evening",
}
_SEASONS = {"spring": 1, "summer": 2, "autumn": 3, "fall": 3, "winter": 4}
_QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_MONTH = _any_of(_MONTH_OF)
_YEAR = r"(1[5-9]\d{2}|20\d{2})"
_AMOUNT_BEHIND = (
    r"(?![.,:/]?\d| ?(?:k?cal(?:orie)?s?|k?g|mg|k?m|miles?|met(?:er|re)s?|feet|ft|dollars?|usd|"
    r"euros?|pounds?|lbs?|people|words?|sq(?:uare)?|watts?|w|mah|cc|ml|[kmg]b|hours?|days?|times|"
    r"steps|characters|tokens|percent|px|hp|rupees|inr|rs|bucks|yen|yuan|points|units|%)\b)"
)


def _iso(found: re.Match[str]) -> Iterable[Mark]:
    return calendar(int(found[1]), int(found[2]), int(found[3]))


def _numeric(found: re.Match[str]) -> Iterable[Mark]:
    """Month first, as in America, unless that makes no date."""
    first, second, year = (int(part) for part in found.groups())
    year += (2000 if year < 50 else 1900) if year < 100 else 0  # noqa: PLR2004
    month, day = (second, first) if first > 12 else (first, second)  # noqa: PLR2004
    return calendar(year, month, day)


def _date(found: re.Match[str]) -> Iterable[Mark]:
    month, day, year = found["month"], found["day"], found["year"]
    return calendar(int(year) if year else None, _MONTH_OF[month], int(day) if day else None)


def _month(found: re.Match[str]) -> Iterable[Mark]:
    if found[1] or found[2] not in _WORDS_TOO:
        yield Mark("month", _MONTH_OF[found[2]])


def _time(found: re.Match[str]) -> Iterable[Mark]:
    return clock(int(found[1]), int(found[2] or 0), f"{found[3]}m")


def _hours(found: re.Match[str]) -> Iterable[Mark]:
    return clock(int(found[1]), int(found[2]))


def _hour(found: re.Match[str]) -> Iterable[Mark]:
    return clock(_number(found[1]), 0)


def _spoken_time(found: re.Match[str]) -> Iterable[Mark]:
    minutes = int(english(re.split(r"[ -]", found[2]))) if found[2] else 0
    return clock(int(english([found[1]])), minutes, f"{found[3]}m")


def _quarter_hour(found: re.Match[str]) -> Iterable[Mark]:
    hour = _number(found[2])
    match found[1]:
        case "half past":
            return clock(hour, 30)
        case "quarter past":
            return clock(hour, 15)
    return clock(hour - 1, 45)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else int(english([text]))


def _years(found: re.Match[str]) -> Iterable[Mark]:
    first, last = found.groups()
    last = first[: 4 - len(last)] + last
    return (Mark("year", int(first)), Mark("year", int(last)))


def _year(found: re.Match[str]) -> Iterable[Mark]:
    if not found[1] and found[2].endswith("00"):
        return  # As likely a number.
    yield Mark("year", int(found[2]))
    if found[1] in _BOUNDS:
        yield Mark("bound", f"{_BOUNDS[found[1]]} {found[2]}")


def _spoken_year(found: re.Match[str]) -> Iterable[Mark]:
    words = [word for word in found[1].split() if word in NUMBER_WORDS]
    year = int(english(words))
    if 1000 <= year < 2100:  # noqa: PLR2004
        yield Mark("year", year)


def _decade(found: re.Match[str]) -> Iterable[Mark]:
    decade = int(found[1])
    yield Mark("decade", decade % 100 if decade < 2000 else decade)  # noqa: PLR2004


def _era(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("year", int(found[1]) * (-1 if found[2].startswith("b") else 1))


def _quarter(found: re.Match[str]) -> Iterable[Mark]:
    name = found[1] or found[2]
    yield Mark("quarter", _QUARTERS.get(name) or int(name[0]))


def _weekday(found: re.Match[str]) -> Iterable[Mark]:
    if not found[1] and found[2] in {"sat", "sun", "wed"}:
        return
    if found[1] in _WHICH:
        yield Mark("relative", f"{_WHICH[found[1]]} week")
    yield Mark("weekday", _DAY_OF[found[2]])


def _which(found: re.Match[str]) -> Iterable[Mark]:
    which, unit = _WHICH[found[1]], found[2]
    if unit in _PARTS:
        day = {"last": "yesterday", "next": "tomorrow"}.get(which)
        return (*((Mark("relative", day),) if day else ()), *_part_of(unit))
    return (Mark("relative", f"{which} {unit}"),)


def _near(found: re.Match[str]) -> Iterable[Mark]:
    day = found[0].removeprefix("the ")
    if day == "tonight":
        return _part_of("night")
    return (Mark("relative", day),)


def _every(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("every", found[1] or _EVERY[found[2]])


def _season(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("season", _SEASONS[found[1] or found[2]])


def _part(found: re.Match[str]) -> Iterable[Mark]:
    return _part_of(found[0].split()[-1].removesuffix("s"))


def _part_of(part: str) -> Iterable[Mark]:
    yield Mark("part", _PARTS[part])
    if part != "night":
        yield Mark("half", "am" if part == "morning" else "pm")


def _noon(found: re.Match[str]) -> Iterable[Mark]:
    return clock(12, 0, "am" if found[0] == "midnight" else "pm")


def _week_part(found: re.Match[str]) -> Iterable[Mark]:
    yield Mark("part of the week", found[1])


_YEAR_BEHIND = r"(?P<year>1\d{3}|20\d{2})\b"
_TEENS = (
    "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|"
    "forty|fifty|sixty|seventy|eighty|ninety"
)
_ONES = "one|two|three|four|five|six|seven|eight|nine"
_HOUR = rf"(\d{{1,2}}|{_ONES}|ten|eleven|twelve)"

_ANY_MONTH = " ".join(_MONTH_OF)


def _rule(cues: str, pattern: str, finder: Finder) -> Rule:
    return Rule(frozenset(cues.split()), re.compile(pattern), finder)


RULES: tuple[Rule, ...] = (
    _rule("- / .", r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)", _iso),
    _rule("- / .", r"\b(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})\b", _numeric),
    _rule("/", r"\b(\d{1,2})/(\d{1,2})/(\d{2})\b", _numeric),
    _rule(
        _ANY_MONTH,
        rf"\b(?P<month>{_MONTH})\.? ?(?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b"
        rf"(?![:.]\d| ?[ap]\.?m)(?:,? {_YEAR_BEHIND})?",
        _date,
    ),
    _rule(
        _ANY_MONTH,
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?[ -]?(?P<month>{_MONTH})\b\.?"
        rf"(?:,?[ -]{_YEAR_BEHIND})?",
        _date,
    ),
    _rule(_ANY_MONTH, rf"\b(?P<month>{_MONTH})\.?,? (?:of )?{_YEAR_BEHIND}(?P<day>)", _date),
    _rule(
        _ANY_MONTH,
        r"\b(?:(in|of|on|by|to|from|since|until|till|before|after|last|next|this|every|early|late|"
        rf"mid)[ -](?:early |late |mid[ -])?)?({_MONTH})\b"
        r"(?! (?:i|we|you|he|she|it|they|be|not)\b)",
        _month,
    ),
    _rule("a p am pm", r"(?<![\d.:])(\d{1,2})(?:[:.](\d{2}))?(?::\d{2})? ?([ap])\.?m\b\.?", _time),
    _rule(
        "am pm",
        rf"\b({_ONES}|ten|eleven|twelve) ?(?:oh[ -])?((?:{_TEENS})(?:[ -](?:{_ONES}))?|(?<=oh[ -])"
        rf"(?:{_ONES}))? ?([ap])\.?m\b\.?(?! i\b)",
        _spoken_time,
    ),
    _rule(":", r"(?<![\d.:])(\d{1,2}):(\d{2})(?::\d{2})?\b(?!:)", _hours),
    _rule(
        "half quarter",
        rf"\b(half past|quarter past|quarter to) {_HOUR}\b",
        _quarter_hour,
    ),
    _rule(
        "o'clock oclock this in at",
        rf"\b{_HOUR} ?(?:o'?clock\b"
        r"|(?=(?:in the|this) (?:morning|afternoon|evening)\b|at night\b))",
        _hour,
    ),
    _rule(
        "morning afternoon evening tonight",
        r"(?:(?<=morning at )|(?<=afternoon at )|(?<=evening at )|(?<=tonight at ))"
        rf"{_HOUR}\b(?!:)",
        _hour,
    ),
    _rule("-", r"(?<![\d.])(1\d{3}|20\d{2}) ?- ?(1\d{3}|20\d{2}|\d{2})(?![\d-]|[/.]\d)", _years),
    _rule("bc bce ad ce", r"\b(\d{1,4}) ?(b\.?c\.?e?|a\.d\.?|ad|ce)(?!\w)", _era),
    _rule("s", r"(?<!\w)'?((?:1\d|20)?\d0)'?s\b", _decade),
    _rule(
        DIGITS,
        r"(?:\b(in|of|from|to|year|since|before|prior to|by|after|until|till|up to|pre|post)"
        r"[ -](?:the )?(?:year )?)?"
        rf"(?<![\d.,:/#$€£¥+*=-])\b{_YEAR}\b{_AMOUNT_BEHIND}",
        _year,
    ),
    _rule(
        "nineteen eighteen seventeen sixteen fifteen twenty two",
        rf"\b((?:nineteen|eighteen|seventeen|sixteen|fifteen|twenty) (?:hundred|{_TEENS})"
        rf"(?:[ -](?:{_ONES}))?|two thousand(?: and)?(?: (?:{_ONES}|{_TEENS}))?)\b"
        r"(?! (?:hundred|thousand|million)|-)",
        _spoken_year,
    ),
    _rule(
        "quarter q1 q2 q3 q4",
        r"\bq([1-4])\b|\b(first|second|third|fourth|last|[1-4](?:st|nd|rd|th)) quarter\b",
        _quarter,
    ),
    _rule(
        " ".join(_DAY_OF),
        rf"\b(?:(on|{_any_of(_WHICH)}) )?({_any_of(_DAY_OF)})\b",
        _weekday,
    ),
    _rule(
        " ".join(_WHICH),
        rf"\b({_any_of(_WHICH)}) (week|weekend|month|year|decade|century|quarter|season|summer|"
        r"winter|spring|fall|autumn|semester|term|night|morning|afternoon|evening)\b",
        _which,
    ),
    _rule(
        "today tonight tomorrow yesterday",
        r"\b(?:(?:the )?day (?:after tomorrow|before yesterday)"
        r"|today|tonight|tomorrow|yesterday)\b",
        _near,
    ),
    _rule(
        f"every each per a an {' '.join(_EVERY)}",
        r"\b(?:every|each|per|a|an)(?:/| )(hour|day|night|week|month|quarter|year)\b"
        rf"|\b({_any_of(_EVERY)})\b",
        _every,
    ),
    _rule(
        "summer summers autumn winter winters spring fall",
        r"\b(?:in(?: the)?|during(?: the)?|the|this|last|next) (spring|fall)\b"
        r"(?! (?:of|in|boot))"
        r"|\b(summer|autumn|winter)s?\b",
        _season,
    ),
    _rule("noon midday midnight", r"\b(?:noon|midday|midnight)\b", _noon),
    _rule(
        "morning mornings afternoon afternoons evening evenings night nights",
        r"\b(?:mornings?|afternoons?|evenings?|(?:at|by|every) night|nights)\b",
        _part,
    ),
    _rule("weekday weekdays weekend weekends", r"\b(weekday|weekend)s?\b", _week_part),
)
"""In this order: the longest and surest first."""

WORDS = frozenset(word for rule in RULES for word in rule.cues) - frozenset(
    "this in at a an p s ad two half - / . :".split()
)
"""A text without any of these says nothing of time."""
