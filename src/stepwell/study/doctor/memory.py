"""The prompts of a log that a new one may go on from. Bounded; not thread-safe."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.policy.prompt_shape.prompt import Prompt, Segment
from stepwell.study.analysis.recent import Recent

MAX_PROMPTS = 20_000
MAX_PIECES = 2_000_000
"""Of all remembered prompts together: some 16 MB, and up to 400 MB where prompts share none."""

MAX_LINKS = 500_000
"""Beginnings remembered for telling what is shared today."""

_EVERY = 8
"""Pieces between two beginnings by which a prompt is found again."""


@dataclass(frozen=True, slots=True)
class _Kept:
    prompt: Prompt
    links: tuple[int, ...]
    pieces: int


class Memory:
    """Prompts by what they begin with, faults left out; the longest unused leave first."""

    def __init__(self, max_prompts: int = MAX_PROMPTS, max_pieces: int = MAX_PIECES) -> None:
        """Remember nothing."""
        self._max_prompts = max_prompts
        self._max_pieces = max_pieces
        self._pieces = 0
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._latest: dict[int, int] = {}
        self._number = 0

    def __len__(self) -> int:
        """Return how many prompts are remembered."""
        return len(self._kept)

    def near(self, scope: int, prompt: Prompt) -> list[Prompt]:
        """Return which prompts may be the best to go on from: two at most, and remember this one.

        They are the latest that has the longest beginning in common with it, faults left out, and
        the latest with the same longest sentence in its head, which finds its like even where the
        very first words differ.

        Args:
            scope: Hash of what prompts must have in common: the model, the tenant.
            prompt: The new one.
        """
        links = tuple(_links(scope, prompt))
        by_length = (self._latest[link] for link in reversed(links[1:]) if link in self._latest)
        numbers = [next(by_length, None), self._latest.get(links[0])]
        found = [n for n in dict.fromkeys(numbers) if n is not None]
        for number in found:
            self._kept.move_to_end(number)
        near = [self._kept[number].prompt for number in found]
        self._add(_Kept(prompt, links, sum(len(s.pieces) for s in prompt.segments)))
        return near

    def _add(self, kept: _Kept) -> None:
        self._number += 1
        self._kept[self._number] = kept
        self._pieces += kept.pieces
        for link in kept.links:
            self._latest[link] = self._number
        while len(self._kept) > self._max_prompts or self._pieces > self._max_pieces:
            number, gone = self._kept.popitem(last=False)
            self._pieces -= gone.pieces
            for link in gone.links:
                if self._latest.get(link) == number:
                    del self._latest[link]


def _links(scope: int, prompt: Prompt) -> Iterator[int]:
    """Yield the hash of the head's longest sentence, then of longer and longer beginnings."""
    ordered = prompt.in_order
    # Seeded by the interpreter, so that no log can be written to collide.
    yield hash((scope, "longest", _longest_in_head(ordered)))
    link, number = scope, 0
    for segment in ordered:
        for piece in segment.pieces:
            if piece.bare:
                link, number = hash((link, piece.bare)), number + 1
                if number % _EVERY == 0:
                    yield link
        link = hash((link, segment.part))
        yield link


def _longest_in_head(segments: tuple[Segment, ...]) -> str:
    head = next((segment for segment in segments if segment.disorder is None), None)
    return max((piece.bare for piece in head.pieces), key=len, default="") if head else ""


class Beginnings:
    """What prompts begin with, word for word. Tells what a prefix cache would share today."""

    def __init__(self) -> None:
        """Know none."""
        self._seen = Recent(MAX_LINKS)

    def take(self, scope: int, prompt: Prompt) -> float:
        """Return how many tokens of a prompt began an earlier one, and remember it."""
        link, shared, is_shared = scope, 0.0, True
        for segment in prompt.segments:
            for piece in segment.pieces:
                link = hash((link, segment.part, piece.raw))
                is_shared = self._seen.meet(link) and is_shared
                shared += piece.tokens if is_shared else 0.0
        return shared
