"""How much of the store is in an index."""

from dataclasses import dataclass

from stepwell.core.names import Arrival, Position


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything up to here has been added and removed."""

    position: Position
    """Changes of the feed that have been obeyed."""
    arrival: Arrival
    """Entries that have been added. Not by their ``as_of``: an answer that took long comes later
    than its ``as_of`` says, and would be passed over after a restart."""

    def reaches(self, other: "Progress") -> bool:
        """Return whether nothing is in ``other`` that is not in this."""
        return self.position >= other.position and self.arrival >= other.arrival


NOTHING = Progress(Position(0), Arrival(0))


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """What this worker's view may lack: entries and changes after ``after``.

    There is one after the start, and whenever something of the index was lost.
    """

    after: Progress
