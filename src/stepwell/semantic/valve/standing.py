"""Which of several that bear one name: the former, the next, the vice-chair; 前任, 副主席."""

import re
from dataclasses import dataclass
from enum import Enum, auto

from stepwell.semantic.valve.alignment import are_stories
from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Outline, is_statement, outline
from stepwell.semantic.valve.reading import LATIN, Reading


class State(Enum):
    """When a thing is, was or will be what it is called."""

    NOW = auto()
    FORMER = auto()
    NEXT = auto()
    PREDICTED = auto()
    PROPOSED = auto()
    ORIGINAL = auto()
    FINAL = auto()


_GOES_WITHOUT_SAYING = frozenset((State.NOW, State.PROPOSED))
"""If nothing is said, these may be meant."""
_LONGEST = 25
"""Words; in longer texts much is said by the way."""
_ENGLISH = {
    word: state
    for state, words in (
        (State.NOW, "current present incumbent latest newest actual"),
        (State.FORMER, "former previous preceding prior"),
        (State.NEXT, "next upcoming future"),
        (State.PREDICTED, "predicted projected forecasted"),
        (State.PROPOSED, "proposed planned"),
        (State.ORIGINAL, "original initial"),
        (State.FINAL, "final"),
    )
    for word in words.split()
}
_WORDS = {state: frozenset(word for word, of in _ENGLISH.items() if of is state) for state in State}
_ADVERBS = {
    "currently": State.NOW,
    "presently": State.NOW,
    "previously": State.FORMER,
    "formerly": State.FORMER,
    "originally": State.ORIGINAL,
    "initially": State.ORIGINAL,
}
_TIMES = frozenset(
    "week month year day night decad centuri season summer winter spring autumn fall morning "
    "afternoon evening hour time weekend quarter semester step level".split()
)
"""Folds before which such a word is a date, or counts."""
_RANKS = frozenset(
    "vice deputy assistant associate co ex sub acting interim junior senior honorary".split()
)
_CUES = frozenset(map(fold, (*_ENGLISH, *_ADVERBS, *_RANKS)))
_SIGNS = frozenset("任现目当如以从过下候将未预最原席统理相长记授裁演编议令")
"""Characters without which none of what follows is there."""
_CHINESE = (
    (State.NOW, re.compile("现任|现在|目前|当前|如今")),
    (State.FORMER, re.compile("前任|上一?任|以前的|从前的|过去的|曾任")),
    (State.NEXT, re.compile("下一?任|候任|将来|未来")),
    (State.PREDICTED, re.compile("预测的?|预计的?")),
    (State.ORIGINAL, re.compile("最初的?|原来的|原先的")),
)
_OFFICES = (
    "主席|总统|总理|首相|校长|院长|经理|书记|部长|市长|省长|县长|会长|教授|主任|局长|处长|科长|队长|班长|董事长"
    "|组长|总裁|秘书长|厅长|镇长|所长|馆长|社长|团长|导演|主编|议长|司令|州长"
)
_OFFICE = re.compile(
    rf"(副|(?<![之目以年月日天])前|原|代理?|名誉|助理|候任)?(?:任|的)?(?:总)?({_OFFICES})"
)


@dataclass(frozen=True, slots=True)
class Standings:
    """What a text calls things to tell them from others of that name."""

    states: dict[State, frozenset[str]]
    """The word a state restricts, if it is one right behind; else nothing."""
    ranks: frozenset[tuple[str, str]]
    """A rank, or nothing, and the fold it stands before."""


def standings(reading: Reading) -> Standings:
    """Return the states and ranks a text names."""
    mine = outline(reading)
    states: dict[State, set[str]] = {}
    ranks: set[tuple[str, str]] = set()
    is_cued = not _CUES.isdisjoint(mine.vocabulary)
    for index, token in enumerate(mine.tokens if is_cued else ()):
        state = _ADVERBS.get(token.text)
        if state:
            states.setdefault(state, set())
        elif token.text in _ENGLISH and (noun := _noun(mine, index + 1)) and noun not in _TIMES:
            states.setdefault(_ENGLISH[token.text], set()).add(noun)
        elif token.text in _RANKS and (noun := _noun(mine, index + 1)):
            ranks.add((token.text, noun))
    if not _SIGNS.isdisjoint(mine.han):
        for state, pattern in _CHINESE:
            if pattern.search(mine.han):
                states.setdefault(state, set())
        ranks.update((found[1] or "", found[2]) for found in _OFFICE.finditer(mine.han))
    return Standings({state: frozenset(nouns) for state, nouns in states.items()}, frozenset(ranks))


def _noun(mine: Outline, index: int) -> str:
    if index < len(mine.tokens):
        token = mine.tokens[index]
        if token.has_content and token.script is LATIN:
            return token.fold
    return ""


def other_standing(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return the state or rank in which two texts differ."""
    mine, theirs = asked.fact(standings), stored.fact(standings)
    if not (mine.states or theirs.states or mine.ranks or theirs.ranks):
        return None
    return _other_state(asked, stored) or _other_rank(asked, stored)


def _other_state(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    mine, theirs = asked.fact(standings).states, stored.fact(standings).states
    if not mine.keys().isdisjoint(theirs) or are_stories(outline(asked), outline(stored)):
        return None
    if (mine and theirs) or (
        _are_short(asked, stored) and (_restricts(mine, stored) or _restricts(theirs, asked))
    ):
        return _names(mine), _names(theirs)
    return None


def _are_short(asked: Reading, stored: Reading) -> bool:
    return max(len(asked.words), len(stored.words)) <= _LONGEST and not (
        is_statement(asked) and is_statement(stored)
    )


def _restricts(states: dict[State, frozenset[str]], other: Reading) -> bool:
    """Return whether a state tells a thing from what the other text calls by the same word.

    What is now is what is meant if nothing is said.
    """
    there = outline(other)
    return any(
        nouns <= there.vocabulary and _WORDS[state].isdisjoint(other.vocabulary)
        for state, nouns in states.items()
        if state not in _GOES_WITHOUT_SAYING
    )


def _names(states: dict[State, frozenset[str]]) -> str:
    return " ".join(sorted(state.name.lower() for state in states))


def _other_rank(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    mine, theirs = asked.fact(standings).ranks, stored.fact(standings).ranks
    ours, others = outline(asked), outline(stored)
    if mine == theirs or not _are_short(asked, stored):
        return None
    one, other = _unshared(mine, theirs, others), _unshared(theirs, mine, ours)
    return (one, other) if one or other else None


def _unshared(
    mine: frozenset[tuple[str, str]], theirs: frozenset[tuple[str, str]], others: Outline
) -> str:
    """Return a rank only one text gives to what both name."""
    for rank, noun in sorted(mine - theirs):
        if not rank or any(rank == other for other, _ in theirs):
            continue
        if noun in others.vocabulary or ("", noun) in theirs:
            return f"{rank} {noun}"
    return ""
