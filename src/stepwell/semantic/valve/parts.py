"""Parts of a thing: half an hour, an hour and a half.

A part of an hour, a minute or a year is said in the smaller unit as well: 一个半小时 is 90 minutes.
"""

from collections.abc import Sequence
from fractions import Fraction

from stepwell.semantic.valve.numerals import ORDINALS
from stepwell.semantic.valve.reading import Word
from stepwell.semantic.valve.units import Unit, units

FRACTIONS = {"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4}
FRACTIONS |= {f"{word}s": n for word, n in ORDINALS.items() if n > 3}  # noqa: PLR2004
"""English words for parts, and how many of them make a whole."""

_SMALLER = {"hour": (60, "minute"), "minute": (60, "second"), "year": (12, "month")}
"""What people reckon parts in. Half a day is as often a morning as it is twelve hours."""


def part_at(words: Sequence[Word], index: int) -> Fraction | None:
    """Return what ``and a half`` at ``index`` adds, if that stands there."""
    match [word.text for word in words[index : index + 3]]:
        case ["and", "a" | "one", part] if part in FRACTIONS:
            return Fraction(1, FRACTIONS[part])
    return None


def in_smaller_unit(value: str, unit: Unit) -> tuple[str, Unit]:
    """Return a part of an hour in minutes, if that makes whole ones; else what was given."""
    times, smaller = _SMALLER.get(unit.name, (1, unit.name))
    whole = Fraction(value) * times
    return (str(whole), units()[smaller]) if whole.denominator == 1 else (value, unit)
