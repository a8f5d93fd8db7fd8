"""Who does it and to whom it is done, where nobody else is named: Ann sued, Ann was sued."""

from stepwell.semantic.valve.english import fold
from stepwell.semantic.valve.outline import Outline, outline
from stepwell.semantic.valve.reading import Reading

_BE = frozenset("is are was were be been being get got gets getting".split())
_ACTIVE = frozenset("do does did will would can could has have had".split())
_PAST = {
    form: fold(verb)
    for form, verb in (
        pair.split()
        for pair in (
            "left leave|sued sue|hit hit|hurt hurt|paid pay|bitten bite|beaten beat|chosen choose"
            "|shot shoot|seen see|heard hear|caught catch|found find|forgiven forgive|taught teach"
        ).split("|")
    )
}
"""Participles that do not end as most do."""
_DEEDS = frozenset(
    map(
        fold,
        """
        leave fire hire kill attack sue invite pay ask help love follow marry bite hit beat defeat
        arrest accuse blame betray cheat choose elect punish rescue save shoot stab threaten trust
        visit warn watch see hear call catch chase divorce dump employ find forgive hate hurt injure
        insult kidnap kiss murder praise promote pursue reject replace rob scare teach
        """.split(),
    )
)
"""Verbs of which the doer is another than the one it is done to: prices rise and are raised."""
_SUBJECT = 4
"""Words that may stand between an auxiliary and the verb in a question."""


def done_to(reading: Reading) -> tuple[frozenset[str], frozenset[str]]:
    """Return the verbs of what is done to somebody, and of what somebody does."""
    mine = outline(reading)
    if _DEEDS.isdisjoint(mine.vocabulary) and _PAST.keys().isdisjoint(reading.vocabulary):
        return frozenset(), frozenset()
    passive: set[str] = set()
    active: set[str] = set()
    voice: set[str] | None = None
    since = 0
    for token in mine.tokens:
        verb = _PAST.get(token.text, token.fold)
        if token.text in _BE:
            voice, since = passive, 0
        elif token.text in _ACTIVE:
            voice, since = active, 0
        elif verb in _DEEDS and voice is not None and since <= _SUBJECT:
            if voice is active or token.text in _PAST or token.text.endswith("ed"):
                voice.add(verb)
            voice = None
        since += 1
    return frozenset(passive), frozenset(active)


def other_voice(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a difference if one text says it is done to what in the other does it.

    Both begin with the same thing and say nothing else.
    """
    mine, theirs = asked.fact(done_to), stored.fact(done_to)
    for passive, active, names in (
        (mine[0], theirs[1], ("passive", "active")),
        (theirs[0], mine[1], ("active", "passive")),
    ):
        if passive & active and _is_same(outline(asked), outline(stored)):
            return names
    return None


def _is_same(mine: Outline, theirs: Outline) -> bool:
    ours, others = _said(mine), _said(theirs)
    return bool(ours) and ours == others


def _said(text: Outline) -> list[str]:
    return [
        _PAST.get(token.text, token.fold)
        for token in text.tokens
        if token.has_content and token.text not in _BE
    ]
