r"""Signs of code in prose: ``==`` and ``=``, ``grep -a`` and ``grep -A``, ``\d`` and ``\D``.

What is fenced or quoted is compared to the letter elsewhere. In bare questions about code the signs
are not words, yet they are what is asked about.
"""

import re

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.outline import outline
from stepwell.semantic.valve.reading import Reading

_MAYBE = re.compile(r"[=<>&|*+\\^%~#$@\[{/]|(?<!\S)[-.:?!]|--|\(\d|\?\?|\?\.")
"""Without this there is no sign of code."""
_EMPHASIS = re.compile(
    r"(?<!\S)(\*{1,3})(?=\S)([^*\n]+)(?<=\S)\1|^\s*(?:[-*>+]|\d\.)\s", re.MULTILINE
)
"""Marks of bold and italic words and of lists."""
_OPERATOR = (
    r"===|!==|==|!=|<=>|<=|>=|=>|->|<-|&&|\|\||<<|>>|\+=|-=|\*=|/=|%=|:=|::|=~|\|>|<>"
    r"|(?<=\s)(?:\?\?|!!|\?[.:])(?=\s+\w)"
)
_SURE = re.compile(
    r"(?P<tag></?[a-zA-Z][\w-]*(?=[\s>/]))"
    r"|(?P<escape>\\[a-zA-Z.\\/]|%[a-zA-Z](?![a-zA-Z])|\.[*+](?!\w))"
    rf"|(?P<operator>{_OPERATOR})"
    r"|(?P<step>(?<=\w)(?:\+\+|--)(?![\w+-])|(?<![\w+-])(?:\+\+|--)(?=[a-z]\b))"
    r"|(?P<anchor>(?<!\S)\^(?=[\w\[(])|(?<=[a-z\])])\$(?=[\s,.?]|$))"
    r"|(?P<bracket>\[[^\[\]\n]{0,20}\]|\{[^{}\n]{0,20}\}|\((?:[\d\s]+,)+[\d\s]*\))"
    r"|(?P<flag>(?<!\S)[-+][a-zA-Z][\w-]*|(?<!\S)--[a-zA-Z][\w-]*)"
    r"|(?P<sigil>(?<![\w.#$@&*!~:/\\])[#.$@&*!~:]{1,2}(?=[a-zA-Z_])(?!\.\.)[\w-]+)"
    r"|(?P<lone>(?<=\s)[?!](?=\s+\w)|[=<>&|*+/^~-])"
)
"""One sign after the other; the longest that begins at a place."""
_PROSE_BRACKET = re.compile(r"[\[{(]\s*[^\W\d_]{3,}[\s\w,.'-]*[\])}]")
_ALWAYS_CODE = frozenset("tag escape operator step anchor bracket".split())
"""What counts where the other text, of the same words, has nothing of the kind."""
_IN_PROSE_TOO = frozenset(("->", "=>", "<-", "<>"))
_CASED = re.compile(r"(?<![\w'.&+#-])[a-zA-Z](?![\w'.&+#-])")
_TOOLS = frozenset(
    "vim vi regex regexp strftime printf scanf flag grep sed awk tar ls curl git chmod ssh tmux "
    "less keybinding 正则 正则表达式 命令 参数".split()
)
"""Where these are spoken of, one letter in another case is another."""


def signs(reading: Reading) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the signs of code in a text in their order, and those that are never prose."""
    prose = reading.prose
    if not _MAYBE.search(prose):
        return (), frozenset()
    prose = _EMPHASIS.sub(lambda found: " " * len(found[0]), prose)
    found: list[str] = []
    sure: set[str] = set()
    for match in _SURE.finditer(prose):
        kind = match.lastgroup or ""
        sign = "".join(match[0].split())
        if kind == "bracket" and _PROSE_BRACKET.fullmatch(match[0]):
            continue
        if kind == "lone" and not _stands_for_itself(prose, match):
            continue
        found.append(sign.lower() if kind == "tag" else sign)
        if kind in _ALWAYS_CODE and sign not in _IN_PROSE_TOO:
            sure.add(found[-1])
    return tuple(found), frozenset(sure)


_NO_LETTER = re.compile(r"[\W_]+")
_BEFORE = re.compile(r"(\S+)\s*$")
_BEHIND = re.compile(r"\s*(\S+)")
_OPERAND = re.compile(r"[a-z\d)\]]|\w*[\d)\]]")
_ABOUT_SIGNS = frozenset(
    "a an the do does did mean means is are of in with use using between and or what for operator "
    "symbol sign character 是 和 与 的".split()
) | {""}
"""Beside these a sign is what is spoken of."""


def _stands_for_itself(prose: str, match: re.Match[str]) -> bool:
    """Return whether a sign joins no words of prose: *cats & dogs*, *read/write*, *yes - no*."""
    start, end = match.span()
    before = _BEFORE.search(prose[max(0, start - 20) : start])
    behind = _BEHIND.match(prose[end : end + 20])
    left = before[1].lower() if before else ""
    right = behind[1].lower().rstrip("?.,;:") if behind else ""
    if left in _ABOUT_SIGNS and right in _ABOUT_SIGNS and match[0] not in "-/":
        return True
    is_number = left[-1:].isdigit() and right[:1].isdigit()
    operands = bool(_OPERAND.fullmatch(left) and _OPERAND.match(right) and len(right) <= 2)  # noqa: PLR2004
    return (
        operands
        and not is_number
        and not (match[0] == "&" and prose[start - 2 : start - 1].isupper())
    )


def _words(reading: Reading) -> str:
    """Return the letters and digits of a text, word by word."""
    bare = [_NO_LETTER.sub("", text) for text in outline(reading).texts]
    return " ".join(filter(None, bare))


def code(asked: Reading, stored: Reading) -> Difference | None:
    """Return signs of code in which two texts differ.

    If only one has any, words may stand for them in the other (*and* for ``&&``); they count then
    if all words are the same.
    """
    (mine, sure), (theirs, also_sure) = asked.fact(signs), stored.fact(signs)
    if mine != theirs:
        if mine and theirs:
            differ = set(mine) != set(theirs)  # What is listed may stand in any order.
        else:
            differ = bool(sure | also_sure) and asked.fact(_words) == stored.fact(_words)
        if differ:
            return Difference(Kind.LITERAL, " ".join(mine), " ".join(theirs))
    return _other_case(asked, stored)


def _letters(reading: Reading) -> tuple[str, ...]:
    if _TOOLS.isdisjoint(reading.vocabulary):
        return ()
    return tuple(letter for letter in _CASED.findall(reading.prose) if letter not in "aAI")


def _other_case(asked: Reading, stored: Reading) -> Difference | None:
    mine, theirs = asked.fact(_letters), stored.fact(_letters)
    if mine == theirs or len(mine) != len(theirs):
        return None
    if "".join(mine).lower() != "".join(theirs).lower():
        return None
    return Difference(Kind.LITERAL, " ".join(mine), " ".join(theirs))
