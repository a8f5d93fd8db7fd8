"""The points of one worker that no segment holds yet. No I/O."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.vectors import Vector, Vectors
from stepwell.semantic.index.point import Point

DeltaRow = tuple[Point, Vectors, int]
"""A point, and the matrix and the row its vector stands in."""

_FIRST_ROWS = 4
_POINT_BYTES = 800
"""Charged for a point's objects and its place in the tables, vector and text apart."""


class Delta:
    """Points by key, and the vectors of each partition in a block that is scanned exactly.

    Searches are safe on any thread; everything else belongs to one.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._blocks: dict[bytes, _Block] = {}
        self._places: dict[CacheKey, tuple[_Block, int]] = {}
        self._expiries: list[tuple[float, CacheKey]] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: CacheKey) -> Point | None:
        """Return the point under ``key``."""
        place = self._places.get(key)
        return None if place is None else place[0].points[place[1]]

    def put(self, point: Point, vector: Vector) -> None:
        """Take ``point``, in place of what is under its key."""
        self.discard(point.key)
        block = self._blocks.get(point.partition)
        if block is None:
            block = self._blocks[point.partition] = _Block(point.partition, self.dimensions)
        self._places[point.key] = block, block.append(point, vector)
        self.size_bytes += self._charge(point)
        heapq.heappush(self._expiries, (point.expires_at, point.key))
        if len(self._expiries) > 2 * len(self._places) + 64:
            self._expiries = [(p.expires_at, p.key) for p in self.points()]
            heapq.heapify(self._expiries)

    def discard(self, key: CacheKey) -> bool:
        """Forget the point under ``key``; return whether there was one."""
        place = self._places.pop(key, None)
        if place is None:
            return False
        block, row = place
        point = block.remove(row)
        self.size_bytes -= self._charge(point)
        if block.live == 0:
            self._blocks.pop(block.partition)
        elif block.dead > block.live + _FIRST_ROWS:
            # Searches on other threads keep the old block.
            packed = block.packed()
            self._blocks[block.partition] = packed
            for new_row, kept in enumerate(packed.points):
                if kept is not None:
                    self._places[kept.key] = packed, new_row
        return True

    def remove_where(self, selector: Selector, before: Position) -> list[Point]:
        """Forget the points of entries that ``selector`` means, from before ``before``."""
        meant = [p for p in self.points() if p.position < before and p.is_meant(selector)]
        for point in meant:
            self.discard(point.key)
        return meant

    def drop_expired(self, now: float) -> None:
        """Forget what has expired."""
        while self._expiries and self._expiries[0][0] <= now:
            self._pop_first()

    def drop_first_to_expire(self) -> None:
        """Forget the point that would expire first."""
        while self._expiries and not self._pop_first():
            pass

    def first_expiries(self, count: int) -> list[float]:
        """Return when the ``count`` points that expire first do so, ascending."""
        return heapq.nsmallest(count, (point.expires_at for point in self.points()))

    def points(self) -> Iterator[Point]:
        """Yield the points, oldest first."""
        for block, row in self._places.values():
            point = block.points[row]
            if point is not None:
                yield point

    def rows(self) -> list[DeltaRow]:
        """Return the points, each with the matrix and the row its vector stands in.

        They stay as they are, whatever the delta does: another thread may read them.
        """
        return [
            (point, block.vectors, row)
            for block, row in self._places.values()
            if (point := block.points[row]) is not None
        ]

    def size_of(self, partition: bytes) -> int:
        """Return how many rows a search of ``partition`` scans."""
        block = self._blocks.get(partition)
        return 0 if block is None else len(block.points)

    def nearest(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[tuple[float, Point]]:
        """Return up to ``k`` points of ``partition`` and their cosines, in no order."""
        block = self._blocks.get(partition)
        return () if block is None else block.nearest(vector, k, now)

    def _pop_first(self) -> bool:
        expires_at, key = heapq.heappop(self._expiries)
        point = self.get(key)
        # An older point's expiry, if the point has been replaced.
        return point is not None and point.expires_at == expires_at and self.discard(key)

    def _charge(self, point: Point) -> int:
        return _POINT_BYTES + 4 * self.dimensions + 4 * len(point.text)


class _Block:
    """One partition. Rows are only appended, so that what a search has read stays true."""

    def __init__(self, partition: bytes, dimensions: int, rows: int = _FIRST_ROWS) -> None:
        self.partition = partition
        self.vectors: Vectors = np.empty((rows, dimensions), np.float32)
        self._expires: npt.NDArray[np.float64] = np.empty(rows, np.float64)
        self.points: list[Point | None] = []
        self.dead = 0

    @property
    def live(self) -> int:
        """Points in it."""
        return len(self.points) - self.dead

    def append(self, point: Point, vector: Vector) -> int:
        """Add a row and return its number."""
        row = len(self.points)
        if row == len(self.vectors):
            self.vectors = _grown(self.vectors)
            self._expires = _grown(self._expires)
        self.vectors[row] = vector
        self._expires[row] = point.expires_at
        # Last: a search sees as many rows as there are points.
        self.points.append(point)
        return row

    def remove(self, row: int) -> Point:
        """Take a point out; its row stays until the block is packed."""
        point = self.points[row]
        if point is None:
            raise LookupError(row)
        self._expires[row] = -np.inf
        self.points[row] = None
        self.dead += 1
        return point

    def packed(self) -> "_Block":
        """Return a block without the dead rows."""
        rows = [row for row, point in enumerate(self.points) if point is not None]
        block = _Block(self.partition, self.vectors.shape[1], len(rows) + _FIRST_ROWS)
        block.vectors[: len(rows)] = self.vectors[rows]
        block._expires[: len(rows)] = self._expires[rows]
        block.points = [self.points[row] for row in rows]
        return block

    def nearest(self, vector: Vector, k: int, now: float) -> list[tuple[float, Point]]:
        """Return up to ``k`` points and their cosines, in no order."""
        points, count = self.points, len(self.points)
        cosines = self.vectors[:count] @ vector
        live = self._expires[:count] > now
        if not live.all():
            cosines[~live] = -np.inf
        best = range(count) if count <= k else np.argpartition(cosines, count - k)[count - k :]
        return [
            (float(cosines[row]), point)
            for row in best
            if live[row] and (point := points[row]) is not None
        ]


def _grown(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    bigger = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger
