"""Numbers, quantities with their units, money, versions."""

import re
from collections import Counter

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.quantities import Quantity, has_pair, has_single, quantities
from stepwell.semantic.valve.reading import HAN, LATIN, Reading, Word
from stepwell.semantic.valve.sums import shown, sums
from stepwell.semantic.valve.units import Unit, may_be_one, units


def number(asked: Reading, stored: Reading) -> Difference | None:
    """Return the first number, unit or operation in which two texts differ.

    The same numbers must stand in both. In another order they may only if what they count says
    so. 1 us where neither has any.
    """
    one, other = quantities(asked), quantities(stored)
    if one or other:
        missing = _missing(one, other, stored), _missing(other, one, asked)
        if any(missing):
            return Difference(Kind.NUMBER, *missing)
        found = _other_unit(one, other)
        if found is not None:
            return found
    if asked.fact(sums) and stored.fact(sums):
        return _other_sum(asked, stored)
    return _other_role(one, other) or _other_measure(asked, stored) or _other_bits(asked, stored)


Value = tuple[str, bool]


def _value(quantity: Quantity) -> Value:
    return quantity.value, quantity.ordinal


def _missing(of: tuple[Quantity, ...], there: tuple[Quantity, ...], other: Reading) -> str:
    """Return the first number of one text that the other does not have."""
    lacking = Counter(map(_value, of)) - Counter(map(_value, there))
    if not lacking:
        return ""
    for quantity in of:
        if _value(quantity) in lacking and not _is_implied(quantity, other):
            return _shown(quantity)
    return ""


def _is_implied(quantity: Quantity, other: Reading) -> bool:
    """Return whether the other text says the number in a word that need not be one."""
    if quantity.ordinal:
        return False
    return (quantity.value == "1" and has_single(other)) or (
        quantity.value == "2" and has_pair(other)
    )


def _shown(quantity: Quantity) -> str:
    if quantity.ordinal:
        return f"no. {quantity.value}"
    return f"{quantity.value} {quantity.unit.name}" if quantity.unit else quantity.value


def _other_unit(one: tuple[Quantity, ...], other: tuple[Quantity, ...]) -> Difference | None:
    """Compare the units of the numbers that both texts have."""
    here, there = _by_value(one), _by_value(other)
    for value in here.keys() & there.keys():
        lacking = _of_other_unit(here[value], there[value])
        counterparts = _of_other_unit(there[value], here[value])
        if lacking and counterparts:
            return Difference(Kind.NUMBER, _shown(lacking[0]), _shown(counterparts[0]))
    return None


def _by_value(found: tuple[Quantity, ...]) -> dict[Value, list[Quantity]]:
    values: dict[Value, list[Quantity]] = {}
    for quantity in found:
        values.setdefault(_value(quantity), []).append(quantity)
    return values


def _of_other_unit(of: list[Quantity], there: list[Quantity]) -> list[Quantity]:
    """Return those of one text whose unit none of the other's can be: 5 g, where that has 5 mg."""
    return [q for q in of if not any(may_be_one(q.unit, other.unit) for other in there)]


def _other_role(one: tuple[Quantity, ...], other: tuple[Quantity, ...]) -> Difference | None:
    """Return a difference if the numbers count other things, or stand in another order."""
    here, there = _by_thing(one), _by_thing(other)
    shared = here.keys() & there.keys()
    for thing in sorted(shared):
        if here[thing] != there[thing]:
            return Difference(Kind.NUMBER, _told(here, thing), _told(there, thing))
    both = set(map(_value, one)).intersection(map(_value, other))
    told = [
        [q for q in found if _value(q) in both and q.value != "1" and _thing(q) not in shared]
        for found in (one, other)
    ]
    if [_value(q) for q in told[0]] != [_value(q) for q in told[1]]:
        return Difference(Kind.NUMBER, *(" ".join(map(_shown, found)) for found in told))
    return None


def _thing(quantity: Quantity) -> str:
    return quantity.noun or (quantity.unit.name if quantity.unit else "")


Things = dict[str, Counter[str]]


def _by_thing(found: tuple[Quantity, ...]) -> Things:
    """Return the numbers by what they count."""
    things: Things = {}
    for quantity in found:
        thing = _thing(quantity)
        if thing and quantity.value != "1":
            things.setdefault(thing, Counter())[quantity.value] += 1
    return things


def _told(things: Things, thing: str) -> str:
    return f"{' '.join(things[thing])} {thing}"


def _other_sum(asked: Reading, stored: Reading) -> Difference | None:
    """Compare what is reckoned: the order of the numbers says nothing without the operation."""
    one, other = asked.fact(sums), stored.fact(sums)
    return Difference(Kind.NUMBER, shown(one), shown(other)) if one != other else None


def _other_measure(asked: Reading, stored: Reading) -> Difference | None:
    """Return a difference if each text names a unit the other does not, of the same kind."""
    one, other = asked.fact(_measures), stored.fact(_measures)
    if one == other:
        return None
    for unit in _lacking(one, other):
        for counterpart in _lacking(other, one):
            if _quality(unit) == _quality(counterpart):
                return Difference(Kind.NUMBER, unit.name, counterpart.name)
    return None


def _quality(unit: Unit) -> str:
    """Return what a unit measures; how much of a thing there is, is told by mass or by volume."""
    return "mass" if unit.measures == "volume" else unit.measures


_BITS_OR_BYTES = re.compile(
    r"(?<![A-Za-z])(?:(?:[KMGT]i?([Bb])|k(B))(?=ps\b|/s\b|p/s\b|(?![A-Za-z]))|[kmgt](b)(?=ps\b))"
)
"""``MB`` and ``Mb``. In small letters either, but for ``mbps`` in a text that has capitals."""


def _other_bits(asked: Reading, stored: Reading) -> Difference | None:
    one, other = asked.fact(_bits_or_bytes), stored.fact(_bits_or_bytes)
    return Difference(Kind.NUMBER, one, other) if one and other and one != other else None


def _bits_or_bytes(reading: Reading) -> str:
    if reading.prose == reading.prose.lower():
        return ""
    found = {"".join(sign) for sign in _BITS_OR_BYTES.findall(reading.prose)}
    return {"b": "bits", "B": "bytes"}[found.pop()] if len(found) == 1 else ""


def _lacking(units_of_one: frozenset[Unit], others: frozenset[Unit]) -> list[Unit]:
    return sorted(
        unit for unit in units_of_one if not any(may_be_one(unit, other) for other in others)
    )


_ALSO_WORDS = frozenset(
    "second seconds minute minutes stone stones yard yards fold cups cup won bit bits cal min sec "
    "ton meg gig bar bars spoon spoons amp amps carat carats chi zhang pascal ampere ohm".split()
)
_MIN_LENGTH = {LATIN: 3, HAN: 2}
"""Shorter words are units only behind a number, but for these."""
_SHORT = frozenset("kg km cm mm ml mg ug μg iu cl dl oz lb ft kb gb tb kw kj hz".split())

_BEFORE_TIME = frozenset("a an one per each every many 1".split())
"""Days and years are spoken of in many ways; behind these they are amounts."""

_CHINESE_UNIT = re.compile(
    "(?:[一每几整]|多少)个?(天|日|周|星期|礼拜|月|年|小时|分钟|斤|公斤|千克|克|毫克|微克|吨|磅|盎司|克拉|平方米|平米"
    "|平方公里|平方厘米|立方米|立方厘米|亩|公顷|公里|千米|英里|海里|光年|米|厘米|毫米|微米|纳米|英尺|英寸|丈|尺|里(?![面边])"
    "|升|毫升|加仑|勺|汤匙|茶匙|瓦|千瓦|兆瓦|毫秒|微秒|纳秒|美元|美金|欧元|英镑|日元|港币|卢布)"
)


def _measures(reading: Reading) -> frozenset[Unit]:
    """Return the units a text names without a number that tells them apart."""
    found: set[Unit] = set()
    if not units().keys().isdisjoint(reading.vocabulary):
        pairs = zip(("", *(word.text for word in reading.words)), reading.words, strict=False)
        found.update(units()[word.text] for before, word in pairs if _is_measure(before, word))
    if not reading.prose.isascii():
        found.update(units()[unit] for unit in _CHINESE_UNIT.findall(reading.prose))
    return frozenset(found)


def _is_measure(before: str, word: Word) -> bool:
    unit = units().get(word.text)
    if unit is None or word.text in _ALSO_WORDS:
        return False
    if unit.measures == "time" and before not in _BEFORE_TIME:
        return False
    return len(word.text) >= _MIN_LENGTH.get(word.script, 99) or word.text in _SHORT
