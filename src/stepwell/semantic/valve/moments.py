"""What a text says of time, as values that can be compared: shared by both languages."""

import re
from collections.abc import Callable, Iterable, Sequence
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

Rule = tuple[re.Pattern[str], Finder]


def find(text: str, rules: Sequence[Rule]) -> list[Span]:
    """Return what ``rules`` find in ``text``, in its order. What one rule has taken the next does
    not see. Linear in the length of the text for each rule.
    """
    spans: list[Span] = []
    for pattern, finder in rules:
        found = [
            Span(match.start(), match.end(), marks)
            for match in pattern.finditer(text)
            if (marks := tuple(finder(match)))
        ]
        if found:
            spans += found
            text = without(text, found)
    return sorted(spans)


def without(text: str, spans: Iterable[Span]) -> str:
    """Return ``text`` with ``spans`` blanked out; all else keeps its place."""
    pieces: list[str] = []
    end = 0
    for span in sorted(spans):
        pieces += (text[end : span.start], "\x00" * (span.end - span.start))
        end = span.end
    return "".join((*pieces, text[end:]))


MINUTES = 60
NOON = 12 * MINUTES
DAY = 24 * MINUTES


def clock(hour: int, minute: int, half: str) -> Iterable[Mark]:
    """Yield the time of day in minutes.

    Args:
        hour: As it is said.
        minute: As it is said.
        half: ``am``, ``pm``, or empty: then the hour is taken as it is.
    """
    if hour > 24 or minute >= MINUTES:  # noqa: PLR2004 - 24:00 is the end of a day
        return
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    yield Mark("time", (hour * MINUTES + minute) % DAY)


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
