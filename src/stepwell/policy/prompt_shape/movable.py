"""Lines of a system prompt that say only what changes, and can be said at the end as well.

Stricter than `volatile`: a line or a sentence moves only if all of it is a label, such as
``Current time``, and what changes; and if its label comes once in the text. So examples, letters
with a date, rules that name a day, and lists of numbered steps stay where they are.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from stepwell.keys.text import prose_and_code
from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.volatile import MOMENT, UNIX_TIME, WEEKDAY, ZONE_NAME

_IS = r"(?:\s?(?:is|are|:|：|=|为|是)){0,2}\s{0,2}"
_WHEN = rf"(?:{MOMENT}|{WEEKDAY}|{ZONE_NAME})"
_VALUE = rf"(?:{MOMENT}|{WEEKDAY}|{UNIX_TIME})(?:[ ,;/(（@，、-]{{0,3}}{_WHEN}[)）]?){{0,4}}"
_NOW = (
    r"(?:the )?(?:current|local|present) (?:local |system )?"
    r"(?:date ?(?:and|&|/) ?time|datetime|date|time|day|timestamp)(?: now)?"
    r"|today(?:['’]s date)?|(?:the )?(?:date|time) (?:today|now)|(?:it is |the time is )?now"
    r"|(?:当前|现在|目前|此刻)(?:的)?(?:日期和时间|日期时间|日期|时间|时刻)?|今天(?:的日期)?|今日(?:日期)?"
)
_NAME = r"[\"'`]?[\w.:/+=-]{1,120}[\"'`]?"
_ID = (
    r"(?:the |this |your )?(?:current )?"
    r"(?:session|request|trace|correlation|conversation|thread|run)[ _-]?(?:id|uuid)"
    r"|(?:当前)?(?:会话|请求|追踪|对话|运行)\s?(?:id|编号|标识)"
)
_COUNTED = (
    r"(?:this is |current )?(?:request|call|turn|attempt|message|iteration|query)"
    r"(?: ?#| (?:number|no\.?|count))|这是第|当前轮次"
)
_AMOUNT = r"\$?[\d.,]{1,15} ?[km%]?(?:\s?(?:/|of|out of)\s?[\d.,]{1,15} ?[km%]?)?"
_THINGS = r"(?:tokens?|credits?|budget|quota|requests?|messages?|context|calls?|balance)"
_SPENT = (
    rf"(?:{_THINGS} (?:used|left|remaining|consumed|spent)|(?:used|remaining|available) {_THINGS})"
    r"(?: so far)?|(?:已用|已使用|剩余)(?:额度|次数|令牌|余额|上下文)?"
)

_KINDS = (
    ("moment", Cause.TIMESTAMP, _NOW, rf"{_IS}{_VALUE}"),
    ("id", Cause.ID, _ID, rf"\s?(?:is |[:：=]|为|是)\s{{0,2}}{_NAME}"),
    ("counter", Cause.COUNTER, _COUNTED, rf"{_IS}{_AMOUNT}(?:\s?次(?:请求|对话|调用|提问))?"),
    ("usage", Cause.USAGE, _SPENT, rf"{_IS}{_AMOUNT}"),
)
_BEGIN = r"(?:^[ \t]*(?:[-*•][ \t]+)?|(?<=[.!?]\s)|(?<=[。！？]))"
_END = r"(?:[.。](?=\s|\Z|[^\W\d_])|(?=[ \t]*$))"
_MOVABLE = re.compile(
    rf"{_BEGIN}(?:"
    + "|".join(
        rf"(?P<{name}>\**(?P<{name}_label>{label})[:：]?\**{value})"
        for name, _, label, value in _KINDS
    )
    + rf"){_END}",
    re.IGNORECASE | re.MULTILINE,
)
_CAUSES = {name: cause for name, cause, _, _ in _KINDS}


@dataclass(frozen=True, slots=True)
class Movable:
    """A sentence that may stand elsewhere."""

    start: int
    end: int
    cause: Cause
    said: str
    """The sentence, without a list's mark and without a full stop."""


def movable_in(text: str, causes: Collection[Cause]) -> list[Movable]:
    """Return what can be moved out of a system prompt's text, from left to right.

    Args:
        text: All of it; its code is left alone.
        causes: What to look for.

    Cost: linear; 0.01 us a character, 0.2 us in lines that have a digit.
    """
    found: list[tuple[str, Movable]] = []
    for match in _matches(_with_code_blotted_out(text)):
        name = next(name for name in _CAUSES if match[name] is not None)
        place = Movable(match.start(), match.end(), _CAUSES[name], match[name].strip())
        found.append((_one_spelling(match[f"{name}_label"]), place))
    times = Counter(label for label, _ in found)
    return [place for label, place in found if times[label] == 1 and place.cause in causes]


_HINT = re.compile("[0-9周期拜月号]")
_HINT_OR_WEEKDAY = re.compile("[0-9周期拜月号]|[nsir]day")
"""Without one of these, no line says when, which or how many. Two, as the first is fast."""

_WEEKDAY_ENDS = ("nday", "sday", "iday", "rday")


def _matches(text: str) -> Iterator[re.Match[str]]:
    has_weekday = any(end in text for end in _WEEKDAY_ENDS)
    look = (_HINT_OR_WEEKDAY if has_weekday else _HINT).search
    at = 0
    while hint := look(text, at):
        start = text.rfind("\n", 0, hint.start()) + 1
        line_end = text.find("\n", hint.end())
        at = len(text) if line_end < 0 else line_end
        yield from _MOVABLE.finditer(text, start, at)


def without(text: str, place: Movable) -> str:
    """Return ``text`` without a sentence, its line too if nothing else stands there."""
    before, after = text[: place.start], text[place.end :]
    on_line = before.rpartition("\n")[2]
    rest, line_end, later = after.partition("\n")
    if on_line.strip() or rest.strip():
        return (before + after.lstrip(" \t")) if rest.strip() else before.rstrip(" \t") + after
    before = before[: len(before) - len(on_line)]
    if not line_end:
        return before.rstrip("\r\n")
    # Of the blank lines on both sides, one side's stay.
    return before + (later.lstrip("\r\n") if before.endswith("\n\n") or not before else later)


def _with_code_blotted_out(text: str) -> str:
    """Return ``text`` with every character of its code made into one that nothing matches."""
    return "".join(
        piece if is_prose else "\0" * len(piece) for piece, is_prose in prose_and_code(text)
    )


def _one_spelling(label: str) -> str:
    return " ".join(label.lower().split())
