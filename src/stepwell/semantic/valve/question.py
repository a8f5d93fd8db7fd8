"""Refuses another kind of question: how, why, when, who."""

from stepwell.semantic.valve.answer import Asks
from stepwell.semantic.valve.asks import asks
from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.reading import Reading

_HOW_MUCH = (Asks.AMOUNT, Asks.PRICE, Asks.DISTANCE, Asks.DURATION, Asks.FREQUENCY)
_OTHERS: tuple[tuple[Asks, tuple[Asks, ...]], ...] = (
    (
        Asks.CAUSE,
        (
            Asks.WAY,
            Asks.MANNER,
            Asks.TIME,
            Asks.PLACE,
            Asks.PERSON,
            Asks.WHETHER,
            Asks.ABILITY,
            *_HOW_MUCH,
        ),
    ),
    (Asks.WAY, (Asks.TIME, Asks.MEANING, Asks.WHETHER, Asks.PERSON, *_HOW_MUCH)),
    (Asks.MANNER, (Asks.TIME, Asks.PLACE, Asks.PERSON, *_HOW_MUCH)),
    (Asks.WHETHER, (Asks.TIME, *_HOW_MUCH)),
    (Asks.ABILITY, (Asks.TIME, *_HOW_MUCH)),
    (Asks.TIME, (Asks.PLACE, Asks.PERSON, Asks.FREQUENCY)),
    (Asks.PLACE, (Asks.PERSON, *_HOW_MUCH)),
    (Asks.PERSON, _HOW_MUCH),
    (Asks.DISTANCE, (Asks.DURATION, Asks.FREQUENCY)),
    (Asks.FREQUENCY, (Asks.DURATION,)),
    (Asks.PRICE, (Asks.DISTANCE, Asks.DURATION, Asks.FREQUENCY)),
    (Asks.LIST, (Asks.TIME, Asks.DISTANCE, Asks.DURATION, Asks.FREQUENCY)),
    (Asks.WHICH, _HOW_MUCH),
    (Asks.SUMMARY, (Asks.TRANSLATION, Asks.EXPLANATION, Asks.WRITING)),
    (Asks.TRANSLATION, (Asks.EXPLANATION, Asks.WRITING)),
    (Asks.DEED, (Asks.CAUSE, Asks.TIME, Asks.PLACE, Asks.PERSON, Asks.WHETHER, *_HOW_MUCH)),
    (Asks.NAME, (Asks.CAUSE, Asks.TIME, Asks.PLACE, Asks.WAY, Asks.WHETHER, *_HOW_MUCH)),
    (Asks.KIND, (Asks.CAUSE, Asks.TIME, Asks.PERSON, Asks.WHETHER)),
    (Asks.PURPOSE, (Asks.WAY, Asks.TIME, Asks.PLACE, Asks.PERSON, Asks.WHETHER, *_HOW_MUCH)),
    (Asks.ALL, _HOW_MUCH),
)
"""Kinds of answer that are never each other's. Pairs not named may be: where one learns a thing
is often how one does."""
_APART = frozenset(frozenset((one, other)) for one, others in _OTHERS for other in others)


def question(asked: Reading, stored: Reading) -> Difference | None:
    """Return the kinds of answer asked for, if no answer is of both."""
    mine, theirs = asked.fact(asks), stored.fact(asks)
    if not mine or not theirs or mine & theirs:
        return None
    if any(frozenset((one, other)) not in _APART for one in mine for other in theirs):
        return None
    return Difference(Kind.QUESTION, _names(mine), _names(theirs))


def _names(kinds: frozenset[Asks]) -> str:
    return " ".join(sorted(kind.name.lower() for kind in kinds))
