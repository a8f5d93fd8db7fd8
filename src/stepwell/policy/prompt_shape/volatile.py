"""What changes from one prompt to the next by itself: times, ids, counters; English and Chinese.

Found wherever it stands, so also where it never changes: whether it costs anything is told by
comparing prompts. `Span.is_sure` marks what hardly ever stays.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.policy.prompt_shape.causes import Cause

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAY = r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
_SHORT_WEEKDAY = rf"(?:{_WEEKDAY}|\b(?:mon|tue|wed|thu|fri|sat|sun)\b)"
_ZONE = r"(?: ?(?:z|utc|gmt|(?-i:[A-Z]{2,4}T))\b)?(?: ?[+-](?:0\d|1[0-4]):?[0-5]\d)?"
_CLOCK = (
    r"(?<![\d:])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-6]\d(?:[.,]\d{1,9})?)?(?![\d:])"
    rf"(?: ?[ap]\.?m\b\.?)?{_ZONE}"
)
_DAY = "(?:[12]\\d|3[01]|0?[1-9])"
_NUMBERED_MONTH = "(?:1[0-2]|0?[1-9])"
_DIGIT_DATE = (
    rf"(?<![\d.-])(?:(?:19|20)\d\d(?:-{_NUMBERED_MONTH}-|/{_NUMBERED_MONTH}/|\.{_NUMBERED_MONTH}\.){_DAY}"
    rf"|{_DAY}[/.]{_DAY}[/.](?:19|20)\d\d)(?!\d)"
)
_WORD_DATE = (
    rf"(?:{_SHORT_WEEKDAY},? )?(?:\b{_MONTH} [0-3]?\d(?:st|nd|rd|th)?,? (?:19|20)\d\d"
    rf"|\b[0-3]?\d(?:st|nd|rd|th)?(?: of)? {_MONTH},? (?:19|20)\d\d)\b"
)
_DIGITS_ZH = "[\\d〇零一二三四五六七八九十]"
_WEEKDAY_ZH = r"(?:星期|礼拜|周)[一二三四五六日天]"
_CLOCK_ZH = (
    rf"(?:凌晨|早上|上午|中午|下午|傍晚|晚上)?\s?{_DIGITS_ZH}{{1,3}}\s?[时点](?:整|半)?"
    rf"(?:\s?{_DIGITS_ZH}{{1,3}}\s?分(?:\s?{_DIGITS_ZH}{{1,3}}\s?秒)?)?"
)
_DATE_ZH = (
    rf"{_DIGITS_ZH}{{2,4}}\s?年\s?{_DIGITS_ZH}{{1,3}}\s?月\s?{_DIGITS_ZH}{{1,3}}\s?[日号]"
    rf"(?:\s?[（(]?{_WEEKDAY_ZH}[）)]?)?"
)
_DATE = rf"(?:{_DATE_ZH}|{_WORD_DATE}|{_DIGIT_DATE})"

MOMENT = rf"(?:{_DATE}(?:(?:T|,? (?:at )?| - |\s?){_CLOCK}|\s?{_CLOCK_ZH})?|{_CLOCK}|{_CLOCK_ZH})"
"""A date, a time of day, or both. For patterns that ignore case."""

WEEKDAY = rf"(?:{_WEEKDAY}|{_WEEKDAY_ZH})"
ZONE_NAME = r"(?:utc|gmt|(?-i:[A-Z]{2,4}T)|[A-Z][a-z]+/[A-Z][A-Za-z_]+)\b"

UNIX_TIME = r"(?<![\w.])1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d{1,9})?(?![\w]|\.\d)"
_UUID = r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
_LABELLED_ID = (
    r"\b(?:session|request|trace|correlation|conversation|thread|run|transaction|job|task|build)"
    r"[ _-]?(?:id|token|key|uuid)\b[\"']?\s{0,2}(?:is|[:=#：])\s{0,2}[\"'`]?[\w.:/+=-]{1,120}"
    r"|\b(?:nonce|salt|seed)[\"']?\s{0,2}[:=：]\s{0,2}[\"'`]?[\w.:/+=-]{1,120}"
    r"|(?:会话|请求|追踪|对话|任务|运行)\s?(?:id|编号|标识)\s{0,2}(?:为|是|[:=：])\s{0,2}[\w.:-]{1,120}"
)
_PREFIXED_ID = (
    r"\b(?:req|sess|session|run|trace|msg|chatcmpl|call|thread|conv|resp|tmp)[-_]"
    r"(?=[a-z_-]{0,40}\d)[a-z0-9_-]{6,64}\b"
)
_HEX_ID = r"\b(?=[0-9]{0,63}[a-f])(?=[a-f]{0,63}[0-9])[0-9a-f]{12,64}\b"
_ULID = r"\b(?-i:0[0-7][0-9A-HJKMNP-TV-Z]{24})\b"

_AMOUNT = r"[\d.,]{1,15}(?: ?[km%])?"
_SPENT = r"(?:used|left|remaining|consumed|spent|available)"
_UNIT = r"(?:tokens?|credits?|budget|quota|requests?|messages?|context|calls?|balance|usage)"
_USAGE = (
    rf"\b{_UNIT}(?: \w{{1,12}})? {_SPENT}\s?(?:is|are|so far)?\s?[:=：]?\s?\$?{_AMOUNT}"
    rf"(?:\s?(?:/|of|out of)\s?{_AMOUNT})?"
    rf"|\b{_SPENT} {_UNIT}\s?(?:is|are)?\s?[:=：]?\s?\$?{_AMOUNT}"
    rf"(?:\s?(?:/|of|out of)\s?{_AMOUNT})?"
    rf"|(?<![\w.]){_AMOUNT}(?:\s?(?:/|of|out of)\s?{_AMOUNT})? {_UNIT} {_SPENT}\b"
    r"|(?:已用|已使用|剩余|还剩|余额)[^\d\n]{0,12}[\d.,]{1,15}(?: ?%)?"
)
_SURE_COUNTER = (
    r"\b(?:request|call|turn|attempt|message|iteration|round|query|visit)s?"
    r"(?:\s?#|\s(?:no\.?|number|count))\s?[:=：]?\s?\d{1,9}(?:\s?(?:/|of|out of)\s?\d{1,9})?"
    r"|第\s?\d{1,9}\s?(?:次|轮)(?:请求|对话|调用|提问)"
)
_COUNTER = (
    r"\b(?:request|call|turn|step|attempt|message|iteration|round|query|run|visit|retry|try)s?"
    r"\s?[:=#：]?\s?\d{1,9}(?:\s?(?:/|of|out of)\s?\d{1,9})?\b"
    r"|第\s?\d{1,9}\s?(?:次|轮|步|条)|(?<![\w&])#\d{1,9}\b"
)
_USER_NAME = (
    r"\b(?:user(?:['’]s)?[ _]?name|username|customer(?:['’]s)? name|name of the (?:user|customer))"
    r"[\"']?\s?(?:is|[:=：])\s{0,2}[\"'`]?[^\n,.;\"'`}]{1,60}"
    r"|(?:用户名|用户姓名|客户姓名|用户的名字)\s?(?:为|是|叫|[:=：])\s{0,2}[^\n，。；,;]{1,30}"
)

_KINDS = (
    # The first that matches at a place wins.
    ("usage", Cause.USAGE, True, _USAGE),
    ("labelled", Cause.ID, True, _LABELLED_ID),
    ("uuid", Cause.ID, True, _UUID),
    ("ulid", Cause.ID, True, _ULID),
    ("prefixed", Cause.ID, True, _PREFIXED_ID),
    ("moment", Cause.TIMESTAMP, False, MOMENT),
    ("weekday", Cause.TIMESTAMP, False, WEEKDAY),
    ("unix", Cause.TIMESTAMP, True, UNIX_TIME),
    ("hexadecimal", Cause.ID, True, _HEX_ID),
    ("sure_counter", Cause.COUNTER, True, _SURE_COUNTER),
    ("counter", Cause.COUNTER, False, _COUNTER),
    ("user_name", Cause.USER_NAME, False, _USER_NAME),
)

_VOLATILE = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for name, _, _, pattern in _KINDS), re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_WITHOUT_DIGITS = re.compile(
    r"\b(?:id|token|key|uuid|nonce|salt|seed|[a-z]{3,6}day)\b|[_ ](?:id|name)\b|username"
    r"|name of|编号|标识|[话求踪务行]\s?id|用户|客户|[周拜期][一二三四五六日天]"
    r"|[零一二三四五六七八九十][月时点]",
    re.IGNORECASE,
)
"""Without a digit, only a text with one of these can have any."""
_CAUSES = {name: (cause, is_sure) for name, cause, is_sure, _ in _KINDS}
_IN_A_DAY = re.compile(r"[:时点]")
_IN_A_YEAR = re.compile(r"[-/.月]|[a-z]{3}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text that changes by itself."""

    start: int
    end: int
    cause: Cause
    is_sure: bool
    """Whether it is likely another one next time, as far as a look at it tells: a time with a date
    is, a date alone may be when a law was passed."""


def volatile_spans(text: str) -> Iterator[Span]:
    """Yield what changes by itself in ``text``, from left to right; spans do not overlap.

    Linear in the length of ``text``: every repeat in the patterns is bounded. Some 2 us a
    character, 0.2 us where there is no digit; give it lines, which mostly have none.
    """
    if not (_DIGIT.search(text) or _WITHOUT_DIGITS.search(text)):
        return
    for found in _VOLATILE.finditer(text):
        cause, is_sure = _CAUSES[found.lastgroup or ""]
        if cause is Cause.TIMESTAMP and not is_sure:
            is_sure = bool(_IN_A_DAY.search(found[0]) and _IN_A_YEAR.search(found[0]))
        yield Span(found.start(), found.end(), cause, is_sure)
