"""The valve's data files say everything once."""

from collections import Counter

import pytest

from stepwell.semantic.valve.names import names
from stepwell.semantic.valve.reading import read
from stepwell.semantic.valve.tables import lines, simplified
from stepwell.semantic.valve.units import units


def spellings(file: str) -> Counter[str]:
    return Counter(
        spelling.lstrip("~^") for line in lines(file) for spelling in set(line.split()[1:])
    )


@pytest.mark.parametrize("file", ["names.txt", "sets.txt", "attributes.txt", "units.txt"])
def test_spellings_are_told_once(file: str) -> None:
    """No spelling names two things, and no file is empty."""
    counts = spellings(file)
    assert len(counts) > 100
    assert [spelling for spelling, count in counts.items() if count > 1] == []


def test_names_and_sets_do_not_overlap() -> None:
    """What must stand in both texts is not also one of a set."""
    assert spellings("names.txt").keys() & spellings("sets.txt").keys() == set()
    listed = spellings("names.txt").keys() | spellings("sets.txt").keys()
    assert listed & spellings("attributes.txt").keys() == set()


@pytest.mark.parametrize("file", ["names.txt", "sets.txt", "attributes.txt"])
def test_names_are_found(file: str) -> None:
    """Every spelling is found as the reading cuts it, in the middle of a sentence."""
    lost = []
    for line in lines(file):
        _, first, *others = line.split()
        name = first.lstrip("~^")
        for spelling in (first.lstrip("~"), *others):
            written = spelling.lstrip("^").replace("_", " ")
            text = f"说说 {written} 吧" if not written.isascii() else f"about {_capital(spelling)}"
            if name not in {mention.name.text for mention in names().find(read(text))}:
                lost.append(spelling)
    assert lost == []


def _capital(spelling: str) -> str:
    written = spelling.lstrip("^").replace("_", " ")
    return written.capitalize() if spelling.startswith("^") else written


def test_units_have_kinds() -> None:
    """Spellings of one unit measure one thing."""
    assert units()["公里"] == units()["kilometres"] == units()["km"]
    assert {unit.measures for unit in units().values()} >= {"length", "mass", "money", "time"}


def test_traditional_characters() -> None:
    """Each is one character, has one simplified form, and that form is not traditional itself."""
    table = simplified()
    assert len(table) > 1000
    assert all(len(simple) == 1 for simple in table.values())
    assert [simple for simple in table.values() if ord(simple) in table] == []
