"""The points of one worker that no segment holds yet. No I/O."""

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Point
from stepwell.core.vectors import Vector, Vectors

DeltaRow = tuple[Point, Vectors, int]
"""A point, and the matrix and the row its vector stands in."""

_FIRST_ROWS = 4
_MOST_ROWS = 2048
"""Rows of a block: what is copied at once when it grows or is packed."""

_BUCKET_SECONDS = 60.0

_POINT_BYTES = 800
"""Charged for a point's objects and its place in the tables, vector and text apart."""


class Delta:
    """Points by key, and the vectors of each partition in blocks that are scanned exactly.

    Searches are safe on any thread; everything else belongs to one.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._blocks: dict[bytes, list[_Block]] = {}
        self._places: dict[CacheKey, tuple[_Block, int]] = {}
        self._expiries = _Expiries()
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
        blocks = self._blocks.setdefault(point.partition, [])
        if not blocks or blocks[-1].is_full:
            blocks.append(_Block(self.dimensions))
        self._places[point.key] = blocks[-1], blocks[-1].append(point, vector)
        self._expiries.add(point)
        self.size_bytes += self._charge(point)

    def discard(self, key: CacheKey) -> bool:
        """Forget the point under ``key``; return whether there was one."""
        place = self._places.pop(key, None)
        if place is None:
            return False
        block, row = place
        point = block.remove(row)
        self._expiries.discard(point)
        self.size_bytes -= self._charge(point)
        if block.dead > block.live:
            self._pack(self._blocks[point.partition], block)
            if not self._blocks[point.partition]:
                del self._blocks[point.partition]
        return True

    def remove_where(self, selector: Selector, before: Position) -> list[Point]:
        """Forget the points of entries that ``selector`` means, from before ``before``."""
        meant = [p for p in self.points() if p.position < before and p.is_meant(selector)]
        for point in meant:
            self.discard(point.key)
        return meant

    def drop_expired(self, now: float) -> None:
        """Forget what has expired."""
        for key in self._expiries.up_to(now):
            point = self.get(key)
            if point is not None and point.expires_at <= now:
                self.discard(key)

    def drop_first_to_expire(self) -> None:
        """Forget one of the points that expire first, to the minute."""
        key = self._expiries.first()
        if key is not None:
            self.discard(key)

    def first_to_expire(self, count: int) -> list[Point]:
        """Return the ``count`` points that expire first, in that order. Looks at all."""
        return heapq.nsmallest(count, self.points(), key=_expiry)

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
        return sum(len(block.points) for block in tuple(self._blocks.get(partition, ())))

    def nearest(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> list[tuple[float, Point]]:
        """Return up to ``k`` points of ``partition`` and their cosines, best first."""
        blocks = tuple(self._blocks.get(partition, ()))
        if not blocks:
            return []
        parts = [block.cosines(vector, now) for block in blocks]
        cosines = np.concatenate(parts)
        rows = cosines.argpartition(-k)[-k:] if len(cosines) > k else np.arange(len(cosines))
        starts = [0, *accumulate(map(len, parts))]
        found: list[tuple[float, Point]] = []
        for row, cosine in zip(rows.tolist(), cosines[rows].tolist(), strict=True):
            number = bisect_right(starts, row) - 1
            point = blocks[number].points[row - starts[number]]
            if cosine > -inf and point is not None:
                found.append((cosine, point))
        found.sort(key=_cosine, reverse=True)
        return found

    def _pack(self, blocks: list["_Block"], block: "_Block") -> None:
        """Put a block without dead rows in the place of ``block``, or nothing if it is empty."""
        place = blocks.index(block)
        if not block.live:
            del blocks[place]
            return
        # Searches on other threads keep the old block.
        blocks[place] = packed = block.packed()
        for row, point in enumerate(packed.points):
            if point is not None:
                self._places[point.key] = packed, row

    def _charge(self, point: Point) -> int:
        return _POINT_BYTES + 4 * self.dimensions + 4 * len(point.text)


class _Expiries:
    """Keys by the minute their points expire in: a key costs the same however many there are."""

    def __init__(self) -> None:
        self._buckets: dict[float, dict[CacheKey, None]] = {}
        self._order: list[float] = []

    def add(self, point: Point) -> None:
        bucket = point.expires_at // _BUCKET_SECONDS
        if bucket not in self._buckets:
            self._buckets[bucket] = {}
            heapq.heappush(self._order, bucket)
        self._buckets[bucket][point.key] = None

    def discard(self, point: Point) -> None:
        bucket = point.expires_at // _BUCKET_SECONDS
        self._buckets[bucket].pop(point.key)

    def up_to(self, now: float) -> list[CacheKey]:
        """Return the keys of all points that may have expired."""
        self._drop_empty()
        last = now // _BUCKET_SECONDS
        return [key for bucket in self._order if bucket <= last for key in self._buckets[bucket]]

    def first(self) -> CacheKey | None:
        """Return a key of the first minute."""
        self._drop_empty()
        return next(iter(self._buckets[self._order[0]])) if self._order else None

    def _drop_empty(self) -> None:
        while self._order and not self._buckets[self._order[0]]:
            del self._buckets[heapq.heappop(self._order)]


class _Block:
    """Some rows of one partition. Rows are only appended: what a search has read stays true."""

    def __init__(self, dimensions: int, rows: int = _FIRST_ROWS) -> None:
        self.vectors: Vectors = np.empty((rows, dimensions), np.float32)
        self._expires: npt.NDArray[np.float64] = np.empty(rows, np.float64)
        self._first_expiry = inf
        self.points: list[Point | None] = []
        self.dead = 0

    @property
    def live(self) -> int:
        """Points in it."""
        return len(self.points) - self.dead

    @property
    def is_full(self) -> bool:
        """Whether the next point belongs into another block."""
        return len(self.points) >= _MOST_ROWS

    def append(self, point: Point, vector: Vector) -> int:
        """Add a row and return its number."""
        row = len(self.points)
        if row == len(self.vectors):
            self.vectors = _grown(self.vectors)
            self._expires = _grown(self._expires)
        self.vectors[row] = vector
        self._expires[row] = point.expires_at
        self._first_expiry = min(self._first_expiry, point.expires_at)
        # Last: a search sees as many rows as there are points.
        self.points.append(point)
        return row

    def remove(self, row: int) -> Point:
        """Take a point out; its row stays until the block is packed."""
        point = self.points[row]
        if point is None:
            raise LookupError(row)
        self._expires[row] = self._first_expiry = -inf
        self.points[row] = None
        self.dead += 1
        return point

    def packed(self) -> "_Block":
        """Return a block without the dead rows."""
        rows = [row for row, point in enumerate(self.points) if point is not None]
        block = _Block(self.vectors.shape[1], len(rows) + _FIRST_ROWS)
        block.vectors[: len(rows)] = self.vectors[rows]
        block._expires[: len(rows)] = self._expires[rows]
        block._first_expiry = float(self._expires[rows].min())
        block.points = [self.points[row] for row in rows]
        return block

    def cosines(self, vector: Vector, now: float) -> Vector:
        """Return the cosine of every row; minus infinity where the row must not match."""
        count = len(self.points)
        cosines: Vector = self.vectors[:count] @ vector
        if self._first_expiry <= now:
            cosines[self._expires[:count] <= now] = -inf
        return cosines


def _expiry(point: Point) -> float:
    return point.expires_at


def _cosine(found: tuple[float, Point]) -> float:
    return found[0]


def _grown(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    bigger = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger
