"""What the semantic layer and its follower need of an index of points, whoever searches it."""

from collections.abc import Sequence
from typing import Protocol

from stepwell.core.entry import Arrived, Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Vector
from stepwell.semantic.index.progress import Gap


class Index(Protocol):
    """Points by partition. For one event loop; no call blocks it.

    A view derived from the store: it may be behind, or lack anything.
    """

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        """Return up to ``k`` points of ``partition`` nearest to ``vector``, nearest first.

        None of them has expired. Some near ones may be missed.

        Raises:
            IndexUnavailable: It cannot be searched, or not within its time budget.
        """
        ...

    async def add(self, point: Point, vector: Vector) -> None:
        """Take a point, in place of an older one with the same key.

        Raises:
            IndexUnavailable: It was not taken.
        """
        ...

    def remove(self, key: CacheKey) -> None:
        """Forget the point of ``key``, soon: its entry was not found."""
        ...


class FollowedIndex(Protocol):
    """The same index, as who keeps it in step with the store sees it."""

    @property
    def gap(self) -> Gap | None:
        """What it may lack, and must be given again."""
        ...

    def close_gap(self, gap: Gap) -> None:
        """Note that it was given all it lacked."""
        ...

    async def lacking(self, arrived: Sequence[Arrived]) -> Sequence[Arrived]:
        """Return which of these entries it has no point of.

        Raises:
            IndexUnavailable: Nobody can say.
        """
        ...

    def remove_where(self, selector: Selector, before: Position) -> None:
        """Forget the points of entries that are gone, soon."""
        ...

    async def maintain(self, position: Position) -> bool:
        """Do what is due now and then; return whether it is to be given what came to the store.

        Args:
            position: Of the feed; every change up to it has been obeyed.

        Raises:
            IndexUnavailable: It cannot be kept just now.
        """
        ...

    async def flush(self, position: Position) -> None:
        """Let the next start, here or elsewhere, go on from here."""
        ...
