"""The index that each worker searches itself, behind the port."""

import asyncio
from collections.abc import Sequence

from stepwell.core.entry import Arrived, Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Vector
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.progress import Gap

MAX_ROWS_ON_LOOP = 10_000
"""Comparing with more takes a millisecond or longer."""


class OwnIndex:
    """A `FollowedIndex` over a `VectorIndex`. Never raises."""

    def __init__(self, index: VectorIndex) -> None:
        self._index = index

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        """As `Index.search`; one that would keep the loop is done on a thread."""
        search = self._index.search
        if self._index.cost_hint(partition) <= MAX_ROWS_ON_LOOP:
            return search(partition, vector, k, now)
        return await asyncio.to_thread(search, partition, vector, k, now)

    async def add(self, point: Point, vector: Vector) -> None:
        """As `Index.add`. Waits for nothing."""
        self._index.add(point, vector)

    def remove(self, key: CacheKey) -> None:
        """As `Index.remove`, at once."""
        self._index.remove(key)

    @property
    def gap(self) -> Gap | None:
        """As `FollowedIndex.gap`."""
        return self._index.gap

    def close_gap(self, gap: Gap) -> None:
        """As `FollowedIndex.close_gap`."""
        self._index.close_gap(gap)

    async def lacking(self, arrived: Sequence[Arrived]) -> Sequence[Arrived]:
        """As `FollowedIndex.lacking`. Waits for nothing."""
        return [one for one in arrived if not self._index.holds(one.key, one.expires_at)]

    def remove_where(self, selector: Selector, before: Position) -> None:
        """As `FollowedIndex.remove_where`, at once."""
        self._index.remove_where(selector, before)

    async def maintain(self, position: Position) -> bool:
        """As `FollowedIndex.maintain`: every worker is given all that came."""
        await self._index.maintain(position)
        return True

    async def flush(self, position: Position) -> None:
        """Write down what only this worker has."""
        await self._index.flush(position)

    async def aclose(self) -> None:
        """Forget everything. May be called twice."""
        await self._index.aclose()
