"""How much of the store is in an index."""

from dataclasses import dataclass

from stepwell.core.names import Position

_BEFORE_THE_FIRST = Position(0)


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything up to here has been added and removed. Both numbers are the store's."""

    position: Position = _BEFORE_THE_FIRST
    """Changes of the feed that have been obeyed."""
    fills: int = 0
    """Entries, by the number they got when they were put. Not their ``as_of``: an answer that took
    long comes later than its ``as_of`` says, and would be passed over after a restart."""

    def reaches(self, other: "Progress") -> bool:
        """Return whether nothing is in ``other`` that is not in this."""
        return self.position >= other.position and self.fills >= other.fills


NOTHING = Progress()
