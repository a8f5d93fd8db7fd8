"""Asks every kind of difference in turn."""

from collections.abc import Callable, Iterable, Iterator

from stepwell.semantic.valve.antonym import antonym
from stepwell.semantic.valve.code import code
from stepwell.semantic.valve.date import date
from stepwell.semantic.valve.difference import Difference
from stepwell.semantic.valve.entity import entity
from stepwell.semantic.valve.inquired import inquired
from stepwell.semantic.valve.instruction import instruction
from stepwell.semantic.valve.language import language
from stepwell.semantic.valve.literal import literal
from stepwell.semantic.valve.modality import modality
from stepwell.semantic.valve.negation import negation
from stepwell.semantic.valve.number import number
from stepwell.semantic.valve.order import order
from stepwell.semantic.valve.prepositions import preposition
from stepwell.semantic.valve.question import question
from stepwell.semantic.valve.reading import Reading, read
from stepwell.semantic.valve.scope import scope

Check = Callable[[Reading, Reading], Difference | None]
"""Takes what was asked and what is stored. Symmetric but for the names in its result."""

CHECKS: tuple[Check, ...] = (
    language,
    code,
    number,
    date,
    negation,
    antonym,
    modality,
    scope,
    order,
    preposition,
    inquired,
    instruction,
    question,
    entity,
)
"""In the order in which they are asked: the surest and cheapest first.

`literal` comes before them all. Where the texts quote the same, they look at what stands around
the quotations; else at everything, as if nothing were quoted.
"""


def differences(
    asked: Reading, stored: Reading, checks: Iterable[Check] = CHECKS
) -> Iterator[Difference]:
    """Yield every difference found, the first of each check."""
    found = literal(asked, stored)
    if found is not None:
        yield found
    if asked.literals != stored.literals:
        asked, stored = asked.opened, stored.opened
    for check in checks:
        found = check(asked, stored)
        if found is not None:
            yield found


def difference(
    asked: Reading, stored: Reading, checks: Iterable[Check] = CHECKS
) -> Difference | None:
    """Return the first difference found, or ``None``: nothing speaks against one answer."""
    return next(differences(asked, stored, checks), None)


def load() -> None:
    """Read the tables and the Chinese dictionary: 0.1 s that the first comparison would take."""
    for one, other in (
        ("How far is 3 km?", "How far is 3 miles?"),
        ("三公里多远？", "三英里多远？"),
    ):
        for _ in differences(read(one), read(other)):
            pass
