"""Prepositions that put one thing into another role: a train to Leeds, a train from Leeds.

Most prepositions can stand for each other (*in Chrome*, *on Chrome*; *refund for*, *refund on*).
``data/prepositions.txt`` lists those that cannot, everywhere or behind certain words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

from stepwell.semantic.valve.difference import Difference, Kind
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Token, outline
from stepwell.semantic.valve.reading import NUMBER, SYMBOL, Reading
from stepwell.semantic.valve.tables import lines

_LONGEST = 30
"""In a longer text much is said by the way."""
_REACH = 3
"""Words between a preposition and what it belongs to, and one."""
_PRONOUNS = frozenset("me you him her it us them whom what which 我 你 您 他 她 它".split())
_SKIPPED = frozenset(
    "a an the my your his her its our their this that these those some any".split()
)
_NO_PREPOSITION = frozenset(
    "up used have has had need want going like able according due how where what when whether way "
    "ought supposed try about ready where's".split()
)
"""Before "to": what follows says what is done."""
_END = "$"


class Use(NamedTuple):
    """A preposition in a text."""

    preposition: str
    governor: str
    """Fold of the word of content it stands behind, or of none."""


@dataclass(frozen=True, slots=True)
class _Apart:
    """When two prepositions are not each other's."""

    behind: frozenset[str]
    """Folds of the words behind which they are apart; empty: of all words."""
    not_behind: frozenset[str]

    def holds(self, mine: Use, theirs: Use) -> bool:
        if mine.governor in self.not_behind or theirs.governor in self.not_behind:
            return False
        return mine.governor == theirs.governor and (
            not self.behind or mine.governor in self.behind
        )


@cache
def _apart() -> dict[frozenset[str], list[_Apart]]:
    table: dict[frozenset[str], list[_Apart]] = {}
    for line in lines("prepositions.txt"):
        words, _, excepted = line.partition("!")
        words, _, behind = words.partition(":")
        rule = _Apart(frozenset(map(fold, behind.split())), frozenset(map(fold, excepted.split())))
        left, right = (side.split() for side in words.split("|"))
        for pair in product(left, right):
            table.setdefault(frozenset(pair), []).append(rule)
    return table


@cache
def _known() -> frozenset[str]:
    return frozenset().union(*_apart())


def uses(reading: Reading) -> dict[str, frozenset[Use]]:
    """Return the prepositions of a text by the first and the last word of what they govern.

    What ends its clause (*Who does he work for?*) is found under ``$``.
    """
    mine, known = outline(reading), _known()
    found: dict[str, set[Use]] = {}
    for at in [at for at, text in enumerate(mine.texts) if text in known]:
        before = mine.texts[at - 1] if at else ""
        if mine.texts[at] == "to" and before in _NO_PREPOSITION:
            continue
        use = Use(mine.texts[at], _governor(mine.tokens, at))
        for governed in _governed(mine.tokens, at + 1):
            found.setdefault(governed, set()).add(use)
    return {governed: frozenset(those) for governed, those in found.items()}


def _governor(tokens: tuple[Token, ...], at: int) -> str:
    for token in reversed(tokens[max(0, at - _REACH) : at]):
        if token.script is SYMBOL:
            break
        if token.has_content:
            return token.fold
    return ""


def _governed(tokens: tuple[Token, ...], start: int) -> Iterator[str]:
    if start >= len(tokens) or tokens[start].script is SYMBOL:
        yield _END
        return
    if tokens[start].text in _PRONOUNS and not _has_content(tokens, start + 1):
        yield tokens[start].fold
        return
    while start < len(tokens) and tokens[start].text in _SKIPPED:
        start += 1
    end = start
    while _has_content(tokens, end):
        end += 1
    if (
        end > start
        and tokens[start].script is not NUMBER
        and not tokens[start].text.endswith("ing")
    ):
        yield tokens[start].fold
        if end > start + 1:
            yield tokens[end - 1].fold


def _has_content(tokens: tuple[Token, ...], at: int) -> bool:
    return at < len(tokens) and tokens[at].has_content


def preposition(asked: Reading, stored: Reading) -> Difference | None:
    """Return two prepositions before one thing that put it into different roles."""
    if max(len(asked.words), len(stored.words)) > _LONGEST:
        return None
    mine, theirs = asked.fact(uses), stored.fact(uses)
    for governed in sorted(mine.keys() & theirs.keys()):
        ours, others = mine[governed], theirs[governed]
        if ours == others or not _all_apart(ours, others):
            continue
        thing = "" if governed == _END else f" {governed}"
        return Difference(Kind.ORDER, _shown(ours) + thing, _shown(others) + thing)
    return None


def _all_apart(ours: frozenset[Use], others: frozenset[Use]) -> bool:
    return all(
        any(rule.holds(use, other) for rule in _apart().get(frozenset((use[0], other[0])), ()))
        for use, other in product(ours, others)
    )


def _shown(uses: frozenset[Use]) -> str:
    return " ".join(sorted(use.preposition for use in uses))
