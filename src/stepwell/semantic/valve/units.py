"""Units of measure, as `data/units.txt` lists them."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from stepwell.semantic.valve.reading import Reading
from stepwell.semantic.valve.tables import lines


class Unit(NamedTuple):
    """One unit."""

    measures: str
    """``length``, ``money``, ...: units of one kind exclude each other."""
    name: str
    """The same for all its spellings."""


@cache
def units() -> dict[str, Unit]:
    """Return all units by the ways to write them in lower case."""
    return {spelling: unit for spelling, unit in _listed() if spelling == spelling.lower()}


@cache
def _cased() -> dict[str, Unit]:
    return {spelling: unit for spelling, unit in _listed() if spelling != spelling.lower()}


def _listed() -> Iterator[tuple[str, Unit]]:
    for line in lines("units.txt"):
        measures, name, *others = line.split()
        for spelling in (name, *others):
            yield spelling.replace("_", " "), Unit(measures, name)


@cache
def _all() -> frozenset[str]:
    return frozenset(spelling.lower() for spelling, _ in _listed())


def is_unit(text: str) -> bool:
    """Return whether a word may be a unit, whatever its capitals."""
    return text in _all()


def cased(written: str, reading: Reading) -> Unit | None:
    """Return the unit that ``written`` is by its capitals: ``mW``, ``MW``.

    ``None`` in a text all in small letters, or all in capitals, where they say nothing.
    """
    unit = _cased().get(written)
    if unit is None or reading.prose in (reading.prose.lower(), reading.prose.upper()):
        return None
    return unit


_LOOSE = {
    frozenset({"pound", "gbp"}),
    frozenset({"pound", "lb"}),
    frozenset({"dollar", "usd"}),
    frozenset({"dollar", "cad"}),
    frozenset({"dollar", "aud"}),
    frozenset({"dollar", "hkd"}),
    frozenset({"jpy", "cny"}),
    frozenset({"spoon", "teaspoon"}),
    frozenset({"spoon", "tablespoon"}),
    frozenset({"kb", "kbit"}),
    frozenset({"mb", "mbit"}),
    frozenset({"gb", "gbit"}),
    frozenset({"degree", "celsius"}),
    frozenset({"degree", "fahrenheit"}),
}
"""Names that may mean the same. ``¥`` is both yuan and yen; who writes one of them out may. In
small letters ``mb`` are bits or bytes."""


def may_be_one(unit: Unit | None, other: Unit | None) -> bool:
    """Return whether two units may be the same; one that is not told may be any but percent."""
    if unit is None or other is None:
        return not (unit or other) or (unit or other) != units()["%"]
    if unit == other:
        return True
    return frozenset({unit.name, other.name}) in _LOOSE


def longest(text: str, start: int) -> tuple[Unit | None, int]:
    """Return the Chinese unit at ``start`` of ``text``, if any, and the offset behind it.

    Months are counted with 个 only.
    """
    skipped = start + text.startswith("个", start)
    for length in range(4, 0, -1):
        spelling = text[skipped : skipped + length]
        unit = units().get(spelling)
        if unit is not None and (spelling != "月" or skipped > start):
            return unit, skipped + length
    return None, start
