"""Two prompts side by side: how far they are the same, and what parts them that could go. Pure."""

from dataclasses import dataclass
from itertools import islice, zip_longest

from stepwell.policy.prompt_shape.causes import Cause
from stepwell.policy.prompt_shape.pieces import Piece
from stepwell.policy.prompt_shape.prompt import Part, Prompt, Segment

_LOOK_AHEAD = 64
"""Pieces searched for one that both prompts have, behind other words."""

_MIN_ANCHOR_CHARACTERS = 12
"""Such a piece is this long at least: a bracket says nothing."""

_SHOWN_CHARACTERS = 200
_SHOWN_OF_EACH = 16


@dataclass(slots=True)
class Break:
    """A place where two prompts part and go on alike behind it."""

    cause: Cause
    part: Part
    old: str
    new: str
    before: str
    """What both have in front of it."""
    tokens: float = 0.0
    """What they have in common from here to the next break, in the new prompt's tokens."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two prompts have in common."""

    same_tokens: float
    """Up to the first break."""
    breaks: tuple[Break, ...]

    @property
    def common_tokens(self) -> float:
        """What the new prompt would share with the old one if there were no faults."""
        return self.same_tokens + sum(b.tokens for b in self.breaks if b.cause.is_fault)


def compare(new: Prompt, old: Prompt) -> Comparison:
    """Return what ``new`` has in common with ``old``, from the start on.

    Both are read with their tools and documents in one order. Behind other words (`Cause.CONTENT`)
    all is put down to those: no rewrite brings it back. Linear in the number of pieces; parts that
    are equal cost one comparison each.
    """
    walk = _Walk(new, old)
    for mine, other in zip(new.in_order, old.in_order, strict=False):
        if mine.part is not other.part or not walk.segment(mine, other):
            break
    return Comparison(walk.same, tuple(walk.breaks))


class _Walk:
    """Goes along two prompts."""

    def __init__(self, new: Prompt, old: Prompt) -> None:
        self._new = new
        self._old = old
        self.same = 0.0
        self.breaks: list[Break] = []
        self._before = ""

    def segment(self, mine: Segment, other: Segment) -> bool:
        """Take a segment of each; return whether they are the same but for breaks."""
        if mine.disorder is not None and mine.rank != other.rank:
            old, new = _order(self._old, mine), _order(self._new, mine)
            self._part_at(mine.disorder, mine.part, old, new)
        if mine.pieces == other.pieces:
            self._count(mine.tokens)
            self._before = mine.pieces[-1].raw if mine.pieces else self._before
            return True
        return self._pieces(mine, other)

    def _pieces(self, mine: Segment, other: Segment) -> bool:
        at, there = 0, 0
        while True:
            at, there = self._skip(mine, at, other, there)
            if at == len(mine.pieces) or there == len(other.pieces):
                return at == len(mine.pieces) and there == len(other.pieces)
            one, two = mine.pieces[at], other.pieces[there]
            if one.bare == two.bare:
                if one.raw != two.raw:
                    self._part_at(one.fault, mine.part, two.raw, one.raw)
                self._count(one.tokens)
                self._before = one.raw
                at, there = at + 1, there + 1
                continue
            found = _next_in_both(mine.pieces, at, other.pieces, there)
            if found is None:
                return False
            old, new = _raw(other.pieces[there : found[1]]), _raw(mine.pieces[at : found[0]])
            self._part_at(Cause.CONTENT, mine.part, old, new)
            at, there = found

    def _skip(self, mine: Segment, at: int, other: Segment, there: int) -> tuple[int, int]:
        """Pass over what counts for nothing, up to the next piece that does."""
        to, to_there = _next_bare(mine.pieces, at), _next_bare(other.pieces, there)
        new, old = mine.pieces[at:to], other.pieces[there:to_there]
        if new == old:
            self._count(sum(piece.tokens for piece in new))
        else:
            self._part_at(_blame(new, old), mine.part, _raw(old), _raw(new))
        if new:
            self._before = _raw(new)
        return to, to_there

    def _count(self, tokens: float) -> None:
        if self.breaks:
            self.breaks[-1].tokens += tokens
        else:
            self.same += tokens

    def _part_at(self, cause: Cause, part: Part, old: str, new: str) -> None:
        last = self.breaks[-1] if self.breaks else None
        if last is not None and (
            last.cause is Cause.CONTENT or (last.cause, last.part) == (cause, part)
        ):
            return
        shown = (old[:_SHOWN_CHARACTERS], new[:_SHOWN_CHARACTERS])
        self.breaks.append(Break(cause, part, *shown, self._before[-_SHOWN_CHARACTERS:]))


def _next_bare(pieces: tuple[Piece, ...], at: int) -> int:
    while at < len(pieces) and not pieces[at].bare:
        at += 1
    return at


def _blame(new: tuple[Piece, ...], old: tuple[Piece, ...]) -> Cause:
    """Return the fault of the first piece that differs; white space only where nothing else is."""
    differing = [one or two for one, two in zip_longest(new, old) if one != two]
    faults = [piece.fault for piece in differing if piece is not None]
    return next((fault for fault in faults if fault is not Cause.WHITESPACE), Cause.WHITESPACE)


def _next_in_both(
    new: tuple[Piece, ...], at: int, old: tuple[Piece, ...], there: int
) -> tuple[int, int] | None:
    """Return where both have the same piece next, behind other words."""
    places: dict[str, int] = {}
    for number in range(there, min(there + _LOOK_AHEAD, len(old))):
        places.setdefault(old[number].bare, number)
    for number in range(at, min(at + _LOOK_AHEAD, len(new))):
        bare = new[number].bare
        if len(bare) >= _MIN_ANCHOR_CHARACTERS and bare in places:
            return number, places[bare]
    return None


def _raw(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.raw for piece in pieces)


def _order(prompt: Prompt, like: Segment) -> str:
    """Return how the tools or the documents of a prompt begin, in the order they stand in it."""
    alike = (s for s in prompt.segments if (s.part, s.disorder) == (like.part, like.disorder))
    # No more than are shown: it is asked for at each tool that stands elsewhere.
    first = islice(alike, _SHOWN_CHARACTERS)
    return ", ".join(segment.name or segment.bare[:_SHOWN_OF_EACH] for segment in first)
