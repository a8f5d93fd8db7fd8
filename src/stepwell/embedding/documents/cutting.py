"""Cutting documents where their content says so.

A chunk ends at the best place between its least and its largest size: before a heading rather than
between paragraphs, between paragraphs rather than sentences; of places as good, where the piece
before has the smallest digest. Nothing else counts. So after an edit, cuts are soon those from
before again, and the chunks there the same: an edit costs the chunk it is in, and seldom the next.
Content-defined chunking (Muthitacharoen et al., LBFS, 2001) with sentences in place of bytes, and
the least of a window in place of a mask (as in AE: Zhang et al., 2015).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from stepwell.embedding.documents.places import LONGEST_PIECE_BYTES, Level, Place, places

ALGORITHM = "sentences-v1"
"""Raise it when other cuts come out: documents are then cut and embedded anew."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large a chunk is, in bytes of UTF-8: a Chinese character counts as three Latin ones, as
    it does for most models' windows. Chunks have some 980 bytes on average.
    """

    min_bytes: int = 400
    """Only the last chunk of a document is smaller."""
    max_bytes: int = 1_600

    def __post_init__(self) -> None:
        """Raise `ValueError` for bounds that a single sentence may not fit between."""
        least = self.min_bytes + LONGEST_PIECE_BYTES
        if not 0 < self.min_bytes <= least <= self.max_bytes:
            raise ValueError(
                f"chunks of {self.min_bytes} to {self.max_bytes} bytes; allowed: at least 1, and"
                f" {LONGEST_PIECE_BYTES} more at most"
            )

    @property
    def chunker(self) -> str:
        """What names this way of cutting, such as ``sentences-v1:400:1600``."""
        return f"{ALGORITHM}:{self.min_bytes}:{self.max_bytes}"


class Piece(NamedTuple):
    """A part of a document."""

    start: int
    """Where it begins, in characters."""
    text: str


def cut(text: str, bounds: Bounds) -> Sequence[Piece]:
    """Return the chunks of ``text`` in order; joined they are the text again.

    The same text is always cut the same way. Costs one pass over it: some 0.2 s a megabyte, 2 s
    where each word is one letter.
    """
    found = [*places(text)]
    sizes = [0, *accumulate(place.size_bytes for place in found)]
    ends = _ends(found, sizes, bounds)
    pieces: list[Piece] = []
    start = 0
    for index in ends:
        end = found[index].end
        pieces.append(Piece(start, text[start:end]))
        start = end
    return pieces


def _ends(found: Sequence[Place], sizes: Sequence[int], bounds: Bounds) -> list[int]:
    """Return the index of the last place of each chunk."""
    ends: list[int] = []
    first = 0
    while sizes[-1] - sizes[first] > bounds.max_bytes:
        first = _best(found, sizes, first, bounds)
        ends.append(first - 1)
    if first < len(found):
        ends.append(len(found) - 1)
    return ends


def _best(found: Sequence[Place], sizes: Sequence[int], first: int, bounds: Bounds) -> int:
    """Return where the chunk after the one that begins with place ``first`` begins."""
    best, rank = first, (Level.ANYWHERE, 0)
    at = first
    while sizes[at + 1] - sizes[first] <= bounds.max_bytes:
        at += 1
        if sizes[at] - sizes[first] < bounds.min_bytes:
            continue
        place = found[at - 1]
        if best == first or (place.level, -place.digest) > rank:
            best, rank = at, (place.level, -place.digest)
    return best
