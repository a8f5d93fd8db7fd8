"""The prompts of a log that a new one may go on from. Bounded; not thread-safe."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from stepwell.policy.prompt_shape.pieces import Piece
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
        """Return which prompts may be the best to go on from, and remember this one.

        Three at most, each the latest of its kind: that with the longest beginning in common, word
        for word; the same, faults left out; and that with the same longest sentence in its head,
        which finds its like even where the very first words differ.

        Args:
            scope: Hash of what prompts must have in common: the model, the tenant.
            prompt: The new one.
        """
        chains = (
            _beginnings(hash((scope, "raw")), prompt.segments, lambda piece: piece.raw),
            _beginnings(hash((scope, "bare")), prompt.in_order, lambda piece: piece.bare),
            [hash((scope, "longest", _longest_in_head(prompt.in_order)))],
        )
        numbers = {self._deepest(chain) for chain in chains}
        near = []
        for number in sorted(number for number in numbers if number is not None):
            self._kept.move_to_end(number)
            near.append(self._kept[number].prompt)
        links = tuple(link for chain in chains for link in chain)
        self._add(_Kept(prompt, links, sum(len(s.pieces) for s in prompt.segments)))
        return near

    def _deepest(self, chain: list[int]) -> int | None:
        return next((self._latest[link] for link in reversed(chain) if link in self._latest), None)

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


def _beginnings(
    start: int, segments: tuple[Segment, ...], read: Callable[[Piece], str]
) -> list[int]:
    """Return hashes of longer and longer beginnings, close together at first."""
    # Seeded by the interpreter, so that no log can be written to collide.
    link, number, found = start, 0, []
    for segment in segments:
        for piece in segment.pieces:
            if said := read(piece):
                link, number = hash((link, said)), number + 1
                if number % _EVERY == 0 or number.bit_count() == 1:
                    found.append(link)
        link = hash((link, segment.part))
        found.append(link)
    return found


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
