"""Quoted and fenced text must match to the letter, and stand in the same roles.

Marks alone make no difference: what one text quotes and the other does not must stand in the
other to the letter. The other checks then read both texts with everything opened.
"""

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.reading import Reading
from stepwell.semantic.valve.symbols import other_symbols

MAX_UNQUOTED = 100
"""Spans looked for in a text that does not quote them. Beyond, they count as missing: every one
costs a search through the text."""


def literal(asked: Reading, stored: Reading) -> Difference | None:
    """Return a span that one text quotes and the other does not hold, or holds in another order.

    Or signs of code that stand unquoted in one text, and others in the other.
    """
    words = other_symbols(asked, stored)
    if words:
        return Difference(Kind.LITERAL, *words)
    if asked.literals == stored.literals:
        return None
    missing = _first_missing(asked, stored), _first_missing(stored, asked)
    if any(missing):
        return Difference(Kind.LITERAL, *missing)
    both = set(asked.literals).intersection(stored.literals)
    orders = [[span for span in one.literals if span in both] for one in (asked, stored)]
    if orders[0] != orders[1] and _say_the_same(asked, stored):
        return Difference(Kind.LITERAL, " ".join(orders[0]), " ".join(orders[1]))
    return None


def _say_the_same(asked: Reading, stored: Reading) -> bool:
    """Return whether three of four words around the spans are the same.

    Then spans in another order have changed their roles; other words may have changed with them.
    """
    one, other = ({word.text for word in reading.words} for reading in (asked, stored))
    return len(one & other) * 4 >= len(one | other) * 3


def _first_missing(of: Reading, other: Reading) -> str:
    """Return the first span of a text that the other does not hold as a whole word."""
    quoted = set(other.literals)
    unquoted = [span for span in dict.fromkeys(of.literals) if span not in quoted]
    found = (span for span in unquoted[:MAX_UNQUOTED] if not _holds(other.text, span))
    return next(found, unquoted[MAX_UNQUOTED] if len(unquoted) > MAX_UNQUOTED else "")


def _holds(text: str, span: str) -> bool:
    """Return whether ``span`` stands in ``text`` and is no part of a longer word."""
    start = text.find(span)
    while start >= 0:
        end = start + len(span)
        before, after = text[start - 1 : start] if start else "", text[end : end + 1]
        if not (_joins(before, span[0]) or _joins(span[-1], after)):
            return True
        start = text.find(span, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    """Return whether two neighbours belong to one word of a script that writes blanks."""
    return (left + right).isascii() and left.isalnum() and right.isalnum()
