"""What a text says of time, as values that can be compared: shared by both languages."""

import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class Mark(NamedTuple):
    """One thing a text says of time."""

    kind: str
    """``year``, ``month``, ``day``, ``weekday``, ``time``, ``relative``, ..."""
    value: int | str
    """Comparable within its kind, across languages."""


class Span(NamedTuple):
    """A place in a text where time is spoken of."""

    start: int
    end: int
    marks: tuple[Mark, ...]


Finder = Callable[[re.Match[str]], Iterable[Mark]]
"""Takes a match of its pattern; nothing comes of it if this is not about time after all."""


class Rule(NamedTuple):
    """One way to speak of time."""

    cues: frozenset[str]
    """Without any of these the pattern cannot match: words in English, characters in Chinese."""
    pattern: re.Pattern[str]
    finder: Finder


DIGITS = "0"
"""The cue of rules that want a digit."""

SEPARATORS = frozenset("-/.:")
"""Cues of rules that want one of these between digits."""


def find(text: str, rules: Sequence[Rule], cues: AbstractSet[str]) -> list[Span]:
    """Return what ``rules`` find in ``text``. What one rule has taken the next does not see.

    Args:
        text: In lower case.
        rules: In the order in which they are tried.
        cues: What there is in the text; rules that want anything else are passed over.
    """
    spans: list[Span] = []
    for rule in rules:
        if rule.cues.isdisjoint(cues):
            continue
        found = [
            Span(match.start(), match.end(), marks)
            for match in rule.pattern.finditer(text)
            if (marks := tuple(rule.finder(match)))
        ]
        if found:
            spans += found
            text = without(text, found)
    return spans


def without(text: str, spans: Sequence[Span]) -> str:
    """Return ``text`` with ``spans`` blanked out; all else keeps its place."""
    if not spans:
        return text
    pieces: list[str] = []
    end = 0
    for span in sorted(spans):
        pieces += (text[end : span.start], "\x00" * (span.end - span.start))
        end = span.end
    return "".join((*pieces, text[end:]))


def clock(hour: int, minute: int, half: str = "") -> Iterable[Mark]:
    """Yield the time as a clock shows it, in minutes, and the half of the day if it is known.

    Args:
        hour: As it is said.
        minute: As it is said.
        half: ``am``, ``pm``, or empty.
    """
    if hour > 24 or minute > 59:  # noqa: PLR2004 - 24:00 is the end of a day
        return
    yield Mark("time", hour % 12 * 60 + minute)
    if half or hour > 12:  # noqa: PLR2004
        yield Mark("half", half or "pm")


def calendar(year: int | None, month: int | None, day: int | None) -> Iterable[Mark]:
    """Yield the parts of a date, or nothing if it is none."""
    if (month is not None and not 0 < month < 13) or (day is not None and not 0 < day < 32):  # noqa: PLR2004
        return
    if year is not None:
        yield Mark("year", year)
    if month is not None:
        yield Mark("month", month)
    if day is not None:
        yield Mark("day", day)
