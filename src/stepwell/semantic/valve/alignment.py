"""What one text says that has no counterpart in the other."""

from stepwell.semantic.valve.outline import Outline

_QUESTION = 25
"""Pieces and signs of a long question."""
_SHARED = 0.6
"""Part of the content that two texts have in common if one was edited into the other."""
_ROOT = 4
"""Words that begin with as many letters alike may say the same: fluent, fluency."""


def unmatched(mine: Outline, theirs: Outline) -> frozenset[str]:
    """Return the content of ``mine`` that has no counterpart in ``theirs``.

    A counterpart is a form of the same word, an English word with the same beginning, or, for a
    Chinese word, any of its characters: words are cut differently in different texts.
    """
    return frozenset(
        word for word in mine.content - theirs.vocabulary if not _has_counterpart(word, theirs)
    )


def _has_counterpart(word: str, theirs: Outline) -> bool:
    if not word.isascii():
        return any(char in theirs.han for char in word)
    if len(word) < _ROOT:
        return False
    root = word[:_ROOT]
    return any(other.startswith(root) for other in theirs.folds)


def are_stories(mine: Outline, theirs: Outline) -> bool:
    """Return whether one is long and both are told in different words.

    Then a "not" or an "only" is mostly said by the way: of 242 such pairs of patients' questions
    with one answer each, 41 had a denial on one side alone.
    """
    if max(len(mine.tokens), len(theirs.tokens)) <= _QUESTION:
        return False
    shared = len(mine.content & theirs.content)
    return shared < _SHARED * len(mine.content | theirs.content)


def is_reversed(mine: Outline, theirs: Outline) -> bool:
    """Return whether what comes first in one text comes last in the other."""
    ours = _common(mine, theirs)
    others = _common(theirs, mine)
    if len(ours) < 2 or len(others) < 2 or ours[0] == ours[-1]:  # noqa: PLR2004
        return False
    return ours[0] == others[-1] and ours[-1] == others[0]


def _common(mine: Outline, theirs: Outline) -> list[str]:
    return [
        token.fold for token in mine.tokens if token.has_content and token.fold in theirs.content
    ]
