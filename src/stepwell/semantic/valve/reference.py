"""Whom a pronoun stands for: her family, where the other text says Bob's."""

from collections import Counter
from dataclasses import dataclass

from stepwell.semantic.valve.outline import folded, outline
from stepwell.semantic.valve.reading import LATIN, Reading

_PRONOUNS = frozenset("he him his she her hers they them their theirs".split())
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class References:
    """Whom a text names."""

    names: Counter[str]
    """Folds of its words in capitals, and how often each stands in the text."""
    pronouns: Counter[str]
    others: Counter[str]
    """All other words."""


def references(reading: Reading) -> References:
    """Return whom a text names, and how often."""
    capital = {
        folded(word.text.removesuffix("'s"))
        for word in reading.words
        if word.script is LATIN and word.written[0].isupper()
    }
    names: Counter[str] = Counter()
    pronouns: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for token in outline(reading).tokens:
        if token.text in _PRONOUNS:
            pronouns[token.text] += 1
        elif token.has_content:
            (names if token.fold in capital else others)[token.fold] += 1
    return References(names, pronouns, others)


def other_reference(asked: Reading, stored: Reading) -> tuple[str, str] | None:
    """Return a pronoun and the name the other text has for it, if it could stand for another.

    The texts must be the same but for that, and name somebody else as well.
    """
    if max(len(asked.words), len(stored.words)) > _LONGEST or (
        _PRONOUNS.isdisjoint(asked.vocabulary) and _PRONOUNS.isdisjoint(stored.vocabulary)
    ):
        return None
    mine, theirs = asked.fact(references), stored.fact(references)
    if mine.others != theirs.others or len(mine.names.keys() & theirs.names.keys()) < 2:  # noqa: PLR2004 - somebody else
        return None
    more, less = mine.names - theirs.names, theirs.names - mine.names
    said, unsaid = theirs.pronouns - mine.pronouns, mine.pronouns - theirs.pronouns
    if len(more) == 1 and not less and said and more.keys() <= theirs.names.keys():
        return " ".join(more), " ".join(said)
    if len(less) == 1 and not more and unsaid and less.keys() <= mine.names.keys():
        return " ".join(unsaid), " ".join(less)
    return None
