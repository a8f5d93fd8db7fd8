"""Dates, weekdays, times of day, and periods."""

from stepwell.semantic.valve import moments_en, moments_zh
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.moments import DIGITS, SEPARATORS, Span, find, without
from stepwell.semantic.valve.reading import NUMBER, Reading

Times = dict[str, tuple[int | str, ...]]
"""What a text says of time: values by kind, in the order of the text, each once."""

_TOLD = frozenset({"part", "half", "every", "calendar", "part of the week"})
"""Kinds that may be left out: they speak against one answer only if both texts tell them."""

_DAYS = ("relative", "weekday", "day")
_WITHIN = frozenset(("part", "half", "time"))
"""Kinds that say when in a day."""

_ORDERED = frozenset({"year", "month", "day", "weekday", "time", "half"})
"""Kinds whose order tells a beginning from an end."""


def date(asked: Reading, stored: Reading) -> Difference | None:
    """Return the first kind of time in which two texts differ. 1 us where neither has any."""
    one, other = asked.fact(_times), stored.fact(_times)
    if one == other:
        return None
    part = _other_part(one, other)
    if part is not None and not (
        asked.prose.endswith((".", "。")) and stored.prose.endswith((".", "。"))
    ):
        return part
    for kind in sorted(one.keys() | other.keys()):
        left, right = one.get(kind, ()), other.get(kind, ())
        if not (left and right) and kind in _TOLD:
            continue
        if left != right and (kind in _ORDERED or set(left) != set(right)):
            return Difference(Kind.DATE, _shown(kind, left), _shown(kind, right))
    return None


def _other_part(one: Times, other: Times) -> Difference | None:
    """Compare the part of a day that is named: tomorrow, tomorrow morning. An hour tells it too."""
    for named, whole in ((one, other), (other, one)):
        if (
            "part" in named
            and _WITHIN.isdisjoint(whole)
            and any(kind in whole and named.get(kind) == whole[kind] for kind in _DAYS)
        ):
            return Difference(
                Kind.DATE,
                _shown("part", one.get("part", ())),
                _shown("part", other.get("part", ())),
            )
    return None


def _shown(kind: str, values: tuple[int | str, ...]) -> str:
    return f"{kind} {' '.join(map(str, values))}" if values else ""


def timeless(reading: Reading) -> str:
    """Return the prose in lower case, with what speaks of time blanked out."""
    return reading.fact(_timeless)


def _timeless(reading: Reading) -> str:
    return without(lowered(reading), reading.fact(_spans))


def lowered(reading: Reading) -> str:
    """Return the prose with ASCII letters in lower case; everything keeps its place."""
    prose = reading.prose
    return prose.lower() if prose.isascii() else prose.translate(_LOWER)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def _times(reading: Reading) -> Times:
    times: dict[str, dict[int | str, None]] = {}
    for span in reading.fact(_spans):
        for mark in span.marks:
            times.setdefault(mark.kind, {})[mark.value] = None
    return {kind: tuple(values) for kind, values in times.items()}


def _spans(reading: Reading) -> list[Span]:
    cues = set(reading.vocabulary)
    if "'s" in reading.prose:
        cues |= {text.removesuffix("'s") for text in reading.vocabulary}
    numbers = [word.text for word in reading.words if word.script is NUMBER]
    if numbers:
        cues |= {DIGITS, *(text.lstrip("0123456789") for text in numbers)}
        cues |= SEPARATORS.intersection(reading.prose)
    spans: list[Span] = []
    if not reading.prose.isascii():
        signs = {DIGITS, *reading.prose} if numbers else set(reading.prose)
        if not moments_zh.SIGNS.isdisjoint(signs):
            spans = find(lowered(reading), moments_zh.RULES, signs)
    if not moments_en.WORDS.isdisjoint(cues):
        spans += find(without(lowered(reading), spans), moments_en.RULES, cues)
    return sorted(spans)
