"""Refuses one thing beside all of them, or beside a list: drop a table, drop all tables.

English only: a Chinese noun does not say whether it is one or several.
"""

from collections.abc import Iterator

from stepwell.semantic.valve.outline import Outline, Token, outline
from stepwell.semantic.valve.reading import LATIN, Reading

_LONGEST = 25
"""Words; in longer texts much is said by the way."""
_ONE = frozenset(("a", "an", "one"))
_ALL = frozenset(("all", "every", "each"))
_BETWEEN = frozenset("one the my your our his her their its of these those single".split())
"""May stand between "all" and the things."""
_WITHIN = 3
"""Words: one or two may stand before the thing: a new empty table."""
_LISTED = frozenset("list name give show tell state write enumerate provide cite".split())
"""A text that begins with one of these asks for as many as it says."""
_LEADS = frozenset("please can could would you me us just".split())


def other_plurality(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return the thing that one text asks about as one, the other as all or several."""
    mine, theirs = outline(asked), outline(stored)
    if mine.han or theirs.han or max(len(mine.texts), len(theirs.texts)) > _LONGEST:
        return None
    found = asked.fact(_one) & stored.fact(_several)
    if found:
        return f"one {min(found)}", f"several {min(found)}"
    found = asked.fact(_several) & stored.fact(_one)
    return (f"several {min(found)}", f"one {min(found)}") if found else None


def _one(reading: Reading) -> frozenset[str]:
    """Return the things of which a text names one."""
    tokens = outline(reading).tokens
    found: set[str] = set()
    for at, token in enumerate(tokens):
        if token.text in _ONE:
            found.update(_things(tokens[at + 1 : at + 1 + _WITHIN]))
    return frozenset(found)


def _several(reading: Reading) -> frozenset[str]:
    """Return the things of which a text names all, or asks to list several."""
    mine = outline(reading)
    tokens = mine.tokens
    found: set[str] = set()
    for at, token in enumerate(tokens):
        if token.text in _ALL:
            start = at + 1
            while start < len(tokens) and tokens[start].text in _BETWEEN:
                start += 1
            found.update(_things(tokens[start : start + _WITHIN]))
    if _is_list(mine):
        found.update(
            token.fold
            for token in tokens
            if token.script is LATIN and token.has_content and _is_plural(token)
        )
    return frozenset(found)


def _things(tokens: tuple[Token, ...]) -> Iterator[str]:
    """Yield what a phrase may be about, up to the first word of grammar."""
    for token in tokens:
        if token.script is not LATIN or not token.has_content:
            return
        yield token.fold


def _is_list(mine: Outline) -> bool:
    first = next((text for text in mine.texts if text not in _LEADS), "")
    return first in _LISTED


def _is_plural(token: Token) -> bool:
    text = token.text
    return text.endswith("s") and not text.endswith(("ss", "us", "is")) and text != token.fold
