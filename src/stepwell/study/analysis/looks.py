"""The pairs of questions that a person should look at."""

import heapq
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from stepwell.core.names import Level
from stepwell.semantic.acceptance.verdict import TOO_FAR
from stepwell.study.arm import NotServed, Question, Served

KEPT = 30
"""Pairs of each kind."""

A_LITTLE = 0.1
"""What a pair may lack to the similarity of its level to be looked at: farther ones are no doubt to
anybody."""

_MAX_CHARACTERS = 1_000
_MAX_PIECES = 600
"""Comparing longer texts word by word would take seconds, and nobody reads them so."""

_PIECE = re.compile(r"[^\W\u3400-\u9fff]+|\s+|.", re.DOTALL)
"""A word, blanks, or one character of Chinese or of anything else."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What was asked, and the stored question that was, or was nearly, taken for the same."""

    asked: str
    stored: str
    similarity: float
    why: str
    """Empty if the answer was given; else what spoke against it."""
    request_class: str


class Looks:
    """Keeps the pairs nearest to the border. Texts are cut; each pair is kept once."""

    def __init__(self, levels: Mapping[Level, float]) -> None:
        """Keep none.

        Args:
            levels: Least similarity of each; empty where nothing is compared by meaning.
        """
        self._levels = levels
        self.served = _Nearest()
        """Served, the least similar."""
        self.too_far = _Nearest()
        """Not similar enough by a little."""
        self.refused = _Nearest()
        """Similar, and refused for a difference."""

    def take(self, question: Question, outcome: Served | NotServed, request_class: str) -> None:
        """Take what became of a question."""
        match outcome:
            case Served(layer="semantic", stored=stored):
                pair = _pair(question, stored, outcome.similarity, "", request_class)
                self.served.offer(-outcome.similarity, pair)
            case NotServed(nearest=Question() as nearest):
                pair = _pair(question, nearest, outcome.similarity, outcome.why, request_class)
                if outcome.why != TOO_FAR:
                    self.refused.offer(outcome.similarity, pair)
                elif outcome.similarity >= self._levels[question.level] - A_LITTLE:
                    self.too_far.offer(outcome.similarity, pair)
            case _:
                pass


class _Nearest:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Pair]] = []
        self._known: set[tuple[str, str]] = set()
        self._count = 0

    def offer(self, nearness: float, pair: Pair) -> None:
        if len(self._heap) == KEPT and nearness <= self._heap[0][0]:
            return
        texts = (pair.asked, pair.stored)
        if texts in self._known:
            return
        self._known.add(texts)
        self._count += 1
        # The earlier of equals stays.
        heapq.heappush(self._heap, (nearness, -self._count, pair))
        if len(self._heap) > KEPT:
            _, _, gone = heapq.heappop(self._heap)
            self._known.discard((gone.asked, gone.stored))

    def pairs(self) -> list[Pair]:
        """Return what is kept, the nearest to the border first."""
        return [pair for _, _, pair in sorted(self._heap, key=lambda kept: kept[:2], reverse=True)]


def _pair(
    question: Question, stored: Question, similarity: float, why: str, request_class: str
) -> Pair:
    return Pair(_words(question), _words(stored), similarity, why, request_class)


def _words(question: Question) -> str:
    return "" if question.phrasing is None else question.phrasing.text[:_MAX_CHARACTERS]


Piece = tuple[str, bool]
"""A part of a text, and whether the other text has something else there."""


def marked(one: str, other: str) -> tuple[list[Piece], list[Piece]]:
    """Return both texts in pieces, with the words marked in which they differ."""
    first, second = _PIECE.findall(one), _PIECE.findall(other)
    if max(len(first), len(second)) > _MAX_PIECES:
        return [(one, False)], [(other, False)]
    one_folded, other_folded = ([p.casefold() for p in pieces] for pieces in (first, second))
    matches = SequenceMatcher(a=one_folded, b=other_folded, autojunk=False).get_matching_blocks()
    return (
        _joined(first, {place for m in matches for place in range(m.a, m.a + m.size)}),
        _joined(second, {place for m in matches for place in range(m.b, m.b + m.size)}),
    )


def _joined(pieces: list[str], common: set[int]) -> list[Piece]:
    joined: list[Piece] = []
    for place, piece in enumerate(pieces):
        differs = place not in common and not piece.isspace()
        if joined and joined[-1][1] == differs:
            piece = joined.pop()[0] + piece  # noqa: PLW2901
        joined.append((piece, differs))
    return joined
