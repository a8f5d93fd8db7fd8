"""A condition that only one text sets: a refund if the box is open; 发烧的时候能吃海鲜吗."""

import re

from stepwell.semantic.valve.addition import NOT_COUNTED
from stepwell.semantic.valve.alignment import unmatched
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Outline, Token, outline
from stepwell.semantic.valve.reading import SYMBOL, Reading

_LONGEST = 25
"""Words; in longer texts much is said by the way."""
_MARKERS = frozenset("if when while unless though although until once because whenever".split())
_PHRASES = frozenset(("with", "without", "as", "on", "despite", "during"))
"""Before what one has or is. Behind all but "as" more than one word must stand: of one word alone
another check decides. But for "as" they are conditions only where yes or no is asked for."""
_SHAPE = re.compile(
    r"in (?:an? |one |a single |two |three )?(?:sentences?|words?|paragraphs?|lines?|tweet|table"
    r"|bullet points|json|xml|csv|yaml|markdown|html)(?= [,.?!]|$)"
)
"""In what shape the answer is to come, which is a condition, too."""
_WHETHER = frozenset(
    "know tell check see ask wonder sure idea out find me determine verify confirm say test".split()
)
"""Before "if", which then says whether."""
_AUXILIARIES = frozenset(
    "do does did is are am was were will would can could should shall may might has have".split()
)
_BY_THE_WAY = frozenset(
    map(
        fold,
        """
        want need wish like possible know idea question help ask wonder plan decide forget lose try
        please mind able mean interest feel happen do thing something anything way find think
        person layman whole rule result
        """.split(),
    )
)
"""Who asks how wants to, and cannot yet."""
_CHINESE = re.compile(
    r"(?:如果|要是|假如|假设|倘若|一旦)[^,。?!]{2,}?(?:的话|[,。?!]|(?=还?可以|还?能|可不可以|怎么|怎样|如何)|$)"
    r"|(?:^|[,。?!])[^,。?!]{1,8}?(?:的时候|期间|的情况下|的话)"
    r"|(?:没有|没带|不带|带着?)[^,。?!]{1,6}?(?=可以|能|怎么|如何|要)"
    r"|用(?:表格|列表|一句话|两句话|一段话|一个词|大白话|json|xml|csv)(?:来|的形式)?"
    r"|周末|节假日|法定假日|春节|国庆|晚上|夜里"
)
_SAID_BY_THE_WAY = re.compile(
    "想|需要|忘|打算|请问|不知道|不会|有问题|方便|现在|平时|今天|遇到|出现"
)


def condition(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return the condition that one text sets, if the other is the rest of it, word for word."""
    mine, theirs = outline(asked), outline(stored)
    if max(len(mine.tokens), len(theirs.tokens)) > _LONGEST:
        return None
    if len(mine.tokens) > len(theirs.tokens):
        words = _conditional(mine, theirs)
        return (words, "") if words else None
    words = _conditional(theirs, mine)
    return ("", words) if words else None


def _conditional(longer: Outline, shorter: Outline) -> str:
    if longer.han:
        return _in_chinese(longer, shorter)
    more = unmatched(longer, shorter)
    if not more or not more.isdisjoint(_BY_THE_WAY) or not _MARKERS.isdisjoint(shorter.texts):
        return ""
    rest = _said(shorter.tokens)
    for at in range(len(longer.texts)):
        end = _end(longer, at)
        if end and _said((*longer.tokens[:at], *longer.tokens[end:])) == rest:
            return " ".join((longer.texts[at], *sorted(more)))
    return ""


def _said(tokens: tuple[Token, ...]) -> list[str]:
    return [
        token.fold
        for token in tokens
        if token.script is not SYMBOL and token.text not in NOT_COUNTED
    ]


def _end(longer: Outline, at: int) -> int:
    """Return where the condition ends that begins at ``at``: at a sign, or with the phrase."""
    text = longer.texts[at]
    if text in _MARKERS and _begins_clause(longer, at):
        end = at + 1
        while end < len(longer.tokens) and longer.tokens[end].script is not SYMBOL:
            end += 1
        return end if end > at + 2 else 0
    if text == "in" and (shape := _SHAPE.match(" ".join(longer.texts[at:]))):
        return at + len(shape[0].split())
    if text not in _PHRASES or (text != "as" and longer.texts[0] not in _AUXILIARIES):
        return 0
    start = at + 1
    while start < len(longer.texts) and longer.texts[start] in NOT_COUNTED:
        start += 1
    end = start
    while end < len(longer.tokens) and longer.tokens[end].has_content:
        end += 1
    return end if end > start + 1 or (text == "as" and end > start) else 0


def _begins_clause(longer: Outline, at: int) -> bool:
    texts = longer.texts
    if at and texts[at - 1] in _WHETHER:
        return False
    return not (texts[at] == "when" and (at + 1 >= len(texts) or texts[at + 1] in _AUXILIARIES))


def _in_chinese(longer: Outline, shorter: Outline) -> str:
    rest = _letters(shorter.han)
    for found in _CHINESE.finditer(longer.han):
        clause = found[0]
        if _SAID_BY_THE_WAY.search(clause):
            continue
        if _letters(longer.han[: found.start()] + longer.han[found.end() :]) == rest:
            return clause
    return ""


def _letters(han: str) -> str:
    return "".join(char for char in han if char.isalnum())
