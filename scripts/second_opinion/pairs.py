"""Labelled pairs and where they gather."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from second_opinion.edits import Writer
from second_opinion.same import reworded

_LONGEST = 420
"""Characters of both texts together."""
_SHORTEST = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts, and whether one answer serves both."""

    one: str
    other: str
    same: bool
    kind: str


@dataclass(slots=True)
class Gathering:
    """Pairs of a language as they are made."""

    writer: Writer
    pairs: list[Pair] = field(default_factory=list)

    def add(self, one: str, other: str, kind: str, *, same: bool) -> None:
        """Add a pair, in either order, unless it is too long or its texts hardly differ."""
        one, other = one.strip(), other.strip()
        alike = one.lower().rstrip("?.! ") == other.lower().rstrip("?.! ")
        fits = min(len(one), len(other)) >= _SHORTEST and len(one) + len(other) <= _LONGEST
        if not fits or (alike and not same):
            return
        if self.writer.odds(0.5):
            one, other = other, one
        self.pairs.append(Pair(one, other, same, kind))

    def add_dressed(self, one: str, other: str, kind: str, *, same: bool) -> None:
        """Add a pair made of frames, each text reworded now and then."""
        self.add(*self._dressed(one, other), kind, same=same)

    def _dressed(self, *texts: str) -> Iterator[str]:
        for text in texts:
            cased = text[:1].upper() + text[1:] if self.writer.odds(0.8) else text
            yield reworded(self.writer, cased, 1) if self.writer.odds(0.35) else cased
