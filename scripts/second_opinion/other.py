"""Edits after which another answer is asked for."""

import re
from collections.abc import Callable
from re import Match

import rjieba

from second_opinion.edits import COMMON, Writer, gerund, lowered

Edit = Callable[[Writer, str], str | None]

_NUMBER_WORDS = [
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty "
    "fifty sixty hundred".split()
]
_CHINESE_NUMBER = re.compile("[一二三四五六七八九十百]+(?=[个年月天号点岁元块次人周条张种])")
_DENIALS = (
    (
        (
            r"\b(can|could|should|would|does|do|did|is|are|was|were|has|have|will) "
            r"(i|you|we|they|he|she|it|people|my|the)\b"
        ),
        r"\1 \2 not",
    ),
    (r"\bwith\b", "without"),
    (r"\bwithout\b", "with"),
    (r"\b(do|does|did|is|are|was|were|has|have|could|should|would)n['’]t\b", r"\1"),
    (r"\bnot ", ""),
    (r"\bwhich (\w+) (include|have|offer|need|allow|support|require)\b", r"which \1 don't \2"),
    (r"\bi (want|need|like|have) ", r"I don't \1 "),
    (r"\bhow (do|can|should) i (\w+)", r"how \1 I avoid \2"),
    (r"\b(is|are|was|were) (\w+)", r"\1 not \2"),
    (r"\b(want|need|try|going) to\b", r"\1 not to"),
)
_CHINESE_DENIALS = (
    "可以|不可以",
    "能|不能",
    "会|不会",
    "有|没有",
    "是|不是",
    "要|不要",
    "需要|不需要",
    "支持|不支持",
    "想|不想",
    "怎么|怎么不",
    "不能|能",
    "没有|有",
)
_CHINESE_ALTERNATIVES = ("能不能", "可不可以", "是不是", "有没有", "会不会", "要不要")
_ROLES = (
    r"\bfrom (\w+) to (\w+)\b",
    r"\b([A-Z]\w+) (?:to|than|into|for|by) ([A-Z]\w+)\b",
    r"\bmore (\w+) than (\w+)\b",
)
_CHINESE_ROLES = (
    "从(.{1,6}?)(?:到|去|飞)(.{1,6}?)(?=的|怎|要|多|需|$)",
    "(.{1,4})比(.{1,4})(?=高|大|好|贵|多|快)",
)
_JOINED = re.compile(r"\b(and|or)\b|[和与跟或、,，;；]")
_CHINESE_COMMON = frozenset(
    "怎么 如何 为什么 什么 多少 可以 我们 你们 他们 这个 那个 一个 没有 不是 已经 现在 还是 因为 "
    "所以 但是 如果 谢谢 请问 您好 你好 知道 觉得 有点 一下".split()
)


def number(writer: Writer, text: str) -> str | None:
    """Change a number."""
    found = [*re.finditer(r"\d+(?:\.\d+)?", text)]
    if found:
        return _put(text, writer.pick(found), lambda old: _other_number(writer, old))
    if not writer.lists.chinese:
        return writer.exchanged(text, _NUMBER_WORDS)
    found = [*_CHINESE_NUMBER.finditer(text)]
    if not found:
        return None
    return _put(
        text,
        writer.pick(found),
        lambda old: writer.pick([c for c in "二三四五六七八九十" if c not in old]),
    )


def _other_number(writer: Writer, old: str) -> str:
    if "." not in old and len(old) > 1 and writer.odds(0.5):
        at = writer.chance.randrange(len(old))
        return old[:at] + writer.pick([c for c in "123456789" if c != old[at]]) + old[at + 1 :]
    step = writer.pick([1, 2, 3, 5, 10])
    value = float(old)
    value += step if value <= step or writer.odds(0.5) else -step
    return f"{value:.{len(old.partition('.')[2])}f}"


def digits_swapped(writer: Writer, text: str) -> str | None:
    """Swap two neighbouring digits."""
    found = [
        match
        for match in re.finditer(r"(?<=\d)\d|\d(?=\d)", text)
        if text[match.start() + 1 : match.start() + 2].isdigit()
        and text[match.start()] not in ("0", text[match.start() + 1])
    ]
    if not found:
        return None
    at = writer.pick(found).start()
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def name(writer: Writer, text: str) -> str | None:
    """Put another name of its kind."""
    return writer.exchanged(text, writer.lists.names)


def sister(writer: Writer, text: str) -> str | None:
    """Put another thing of its kind."""
    return writer.exchanged(text, writer.lists.sisters)


def opposite(writer: Writer, text: str) -> str | None:
    """Put an opposite."""
    return writer.exchanged(text, writer.lists.opposites)


def question(writer: Writer, text: str) -> str | None:
    """Ask something else about the same."""
    return writer.exchanged(text, writer.lists.question_words)


def antonym(writer: Writer, text: str) -> str | None:
    """Put an antonym of WordNet's."""
    return None if writer.lists.chinese else writer.related(text, "opposite")


def neighbour(writer: Writer, text: str) -> str | None:
    """Put a word that stands beside or below in WordNet."""
    return None if writer.lists.chinese else writer.related(text, "near")


def denied(writer: Writer, text: str) -> str | None:
    """Deny what is said, or no longer deny it."""
    if writer.lists.chinese:
        return _denied_chinese(writer, text)
    for pattern, new in writer.chance.sample(_DENIALS, len(_DENIALS)):
        found = re.search(pattern, text, re.IGNORECASE)
        if found:
            result = text[: found.start()] + found.expand(new) + text[found.end() :]
            return re.sub(r"avoid (\w+)", lambda verb: f"avoid {gerund(verb[1])}", result)
    return None


def _denied_chinese(writer: Writer, text: str) -> str | None:
    if any(words in text for words in _CHINESE_ALTERNATIVES):
        return None
    for pair in writer.chance.sample(_CHINESE_DENIALS, len(_CHINESE_DENIALS)):
        old, new = pair.split("|")
        if old in text:
            return text.replace(old, new, 1)
    return None


def restricted(writer: Writer, text: str) -> str:
    """Ask about a special case of it."""
    lists = writer.lists
    case = writer.pick(lists.restrictions)
    for slot, kind in (
        ("{country}", "COUNTRY"),
        ("{city}", "CITY"),
        ("{plang}", "PLANG"),
        ("{month}", "MONTH"),
    ):
        case = case.replace(slot, writer.pick(lists.places[kind]))
    if lists.chinese:
        inside = re.sub("(怎么|如何|可以|能|多少|为什么|什么)", rf"{case}\1", text, count=1)
        return case + text if inside == text or writer.odds(0.5) else inside
    bare = text.rstrip("?.! ")
    if writer.odds(0.75):
        return f"{bare} {case}{text[len(bare) :]}"
    return f"{case[0].upper()}{case[1:]}, {lowered(text)}"


def roles(writer: Writer, text: str) -> str | None:
    """Swap who does it and to whom it is done."""
    for pattern in _CHINESE_ROLES if writer.lists.chinese else _ROLES:
        found = re.search(pattern, text)
        if found and found[1] != found[2]:
            between = text[found.end(1) : found.start(2)]
            return text[: found.start(1)] + found[2] + between + found[1] + text[found.end(2) :]
    return None


def swapped(writer: Writer, text: str) -> str | None:
    """Swap two words that carry meaning."""
    spots = _chinese_words(text) if writer.lists.chinese else _nouns(writer, text)
    if len(spots) < 2:  # noqa: PLR2004
        return None
    at = writer.chance.randrange(len(spots) - 1)
    (first, start), (second, end) = spots[at], spots[at + 1]
    between = text[start + len(first) : end]
    if first.lower() == second.lower() or not between.strip() or _JOINED.search(between):
        return None
    return text[:start] + second + between + first + text[end + len(second) :]


def _chinese_words(text: str) -> list[tuple[str, int]]:
    spots, at = [], 0
    for word in rjieba.cut(text):
        if re.fullmatch("[\u4e00-\u9fff]{2,}", word) and word not in _CHINESE_COMMON:
            spots.append((word, at))
        at += len(word)
    return spots


def _nouns(writer: Writer, text: str) -> list[tuple[str, int]]:
    def is_noun(match: Match[str]) -> bool:
        word = match[0].lower()
        if word in COMMON:
            return False
        known = ("n", word) in writer.words or ("n", word.removesuffix("s")) in writer.words
        return known or (match[0][0].isupper() and match.start() > 0)

    found = re.finditer(r"[A-Za-z][A-Za-z'\-]{2,}", text)
    return [(match[0], match.start()) for match in found if is_noun(match)]


def _put(text: str, found: Match[str], new: Callable[[str], str]) -> str:
    return text[: found.start()] + new(found[0]) + text[found.end() :]


EDITS: tuple[tuple[Edit, float], ...] = (
    (number, 3),
    (name, 4),
    (sister, 4),
    (opposite, 4),
    (denied, 2),
    (restricted, 1.2),
    (roles, 5),
    (swapped, 1.5),
    (digits_swapped, 1.5),
    (question, 1),
    (antonym, 2),
    (neighbour, 3),
)
"""With how readily each is tried first. Most do not apply to most texts."""


def changed(writer: Writer, text: str) -> tuple[str, str] | None:
    """Return the kind of a change and the changed text, or ``None`` if no edit applies."""
    order = sorted(EDITS, key=lambda edit: writer.chance.random() ** (1 / edit[1]), reverse=True)
    for edit, _ in order:
        result = edit(writer, text)
        if result and result.lower().strip("?!. ") != text.lower().strip("?!. "):
            return edit.__name__, result
    return None
