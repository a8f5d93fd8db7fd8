"""What one worker sees: its delta over the segments. No I/O but reads of mapped files."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from operator import attrgetter, itemgetter

import numpy as np

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Vector
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.delta import Delta, DeltaRow
from stepwell.semantic.index.live import RowState
from stepwell.semantic.index.manifest import Damaged
from stepwell.semantic.index.removals import RecentRemovals
from stepwell.semantic.index.segment import Near, Rows, Segment, noting_damage
from stepwell.semantic.index.tiers import Size

_cosine, _similarity = itemgetter(0), attrgetter("similarity")

_AT_ONCE = 128
"""Points moved between delta and segments in one step, so that no search waits for long."""


class View:
    """Delta, segments, and what keeps them from answering for the same point twice.

    `search` and `cost` are safe on any thread; everything else belongs to one.

    A segment that is new joins in steps: `join` makes adds and removals know of it, `settle` takes
    out what this worker knows to be gone and lets the delta answer for what it holds as well,
    `commit` shows it to searches, and `hand_over` lets go of what the delta need not hold.
    """

    def __init__(self, dimensions: int, bounds: Bounds) -> None:
        self._bounds = bounds
        self._delta = Delta(dimensions)
        self._segments: tuple[Segment, ...] = ()
        self._orphans: tuple[Segment, ...] = ()
        self._joining: tuple[Segment, ...] = ()
        self._waiting: dict[CacheKey, tuple[Segment, int]] = {}
        self._removals = RecentRemovals()

    # -- what searches see ------------------------------------------------------------------

    def search(self, partition: bytes, vector: Vector, k: int, now: float) -> list[Candidate]:
        """Return the nearest points; see `VectorIndex.search`. ``vector`` has been checked."""
        best = [
            _candidate(cosine, point)
            for cosine, point in self._delta.nearest(partition, vector, k, now)
        ]
        found: list[tuple[float, Segment, int]] = []
        for segment in self._shown():
            near = _nearest(segment, partition, vector, k, now)
            found += zip(near.cosines.tolist(), repeat(segment), near.rows.tolist())
        found.sort(key=_cosine, reverse=True)
        rows: dict[Segment, list[tuple[float, int]]] = {}
        for cosine, segment, row in found[:k]:
            rows.setdefault(segment, []).append((cosine, row))
        for segment, nearest in rows.items():
            best += _candidates(segment, nearest, now)
        best.sort(key=_similarity, reverse=True)
        # While a point is handed over, a search on another thread may find it twice.
        return list({candidate.key: candidate for candidate in best}.values())[:k]

    def cost(self, partition: bytes) -> int:
        """Return how many rows a search of ``partition`` scans, about."""
        return self._delta.size_of(partition) + sum(
            segment.size_of(partition) for segment in self._shown()
        )

    # -- changes ----------------------------------------------------------------------------

    def add(self, point: Point, vector: Vector) -> bool:
        """Take a point unless a newer one of its key is there; return whether it did."""
        age = point.position, point.expires_at
        held = self._delta.get(point.key)
        if held is not None and (held.position, held.expires_at) >= age:
            return False
        for segment, row in self._rows_of(point.key):
            newer = segment.age(row) >= age
            if segment in self._joining and newer:
                self._wait(segment, point.key, row)
            elif newer and segment in self._segments and _is_held(segment, row):
                return False
            else:
                segment.live.remove(row)
        self._delta.put(point, vector)
        self._removals.forget_key(point.key)
        self._keep_bounds()
        return True

    def holds(self, key: CacheKey, expires_at: float) -> bool:
        """Return whether a point of ``key`` can match until ``expires_at``."""
        held = self._delta.get(key)
        if held is not None:
            return held.expires_at >= expires_at
        return any(
            segment.age(row)[1] >= expires_at
            and _is_held(segment, row)
            # What no manifest names is given up once the rest has been added.
            and segment not in self._orphans
            for segment, row in self._rows_of(key)
        )

    def remove(self, key: CacheKey, before: Position | None) -> bool:
        """Remove the point under ``key``, if it is from before ``before``; return whether."""
        removed = False
        newest = -1
        point = self._delta.get(key)
        if point is not None and (before is None or point.position < before):
            newest = point.position
            removed = self._delta.discard(key)
        for segment, row in self._rows_of(key):
            position = segment.age(row)[0]
            if before is None or position < before:
                newest = max(newest, position)
                removed |= segment.live.remove(row)
        self._removals.add_key(key, Position(newest + 1) if before is None else before)
        return removed

    def remove_where(self, selector: Selector, before: Position) -> int:
        """Remove the points of entries that ``selector`` means; return how many there were."""
        removed = len(self._delta.remove_where(selector, before))
        for segment in self._known():
            with noting_damage(segment):
                removed += segment.remove(selector, before)
        self._removals.add_selector(selector, before)
        return removed

    def drop_expired(self, now: float) -> None:
        """Let what has expired leave memory."""
        self._delta.drop_expired(now)
        for segment in self._shown():
            with noting_damage(segment):
                segment.follow(now)

    def evict(self) -> int:
        """Remove the points next to expire until ``max_points`` are left; return how many."""
        excess = len(self) - self._bounds.max_points
        if excess <= 0:
            return 0
        # Checked when they were let expire, a moment ago.
        segments = self._shown()
        firsts = [segment.live.first_to_expire(excess) for segment in segments]
        expiries = [
            segment.live.expires(rows) for segment, rows in zip(segments, firsts, strict=True)
        ]
        points = self._delta.first_to_expire(excess)
        expiries.append(np.array([point.expires_at for point in points]))
        source_of = np.repeat(np.arange(len(expiries)), [len(found) for found in expiries])
        chosen = source_of[np.argsort(np.concatenate(expiries), kind="stable")[:excess]]
        counts = np.bincount(chosen, minlength=len(expiries)).tolist()
        for segment, rows, count in zip(segments, firsts, counts, strict=False):
            segment.live.mark(rows[:count], RowState.REMOVED)
        for point in points[: counts[-1]]:
            self._delta.discard(point.key)
        return excess

    def drop_orphans(self) -> None:
        """Give up the segments that no manifest names."""
        self._orphans = ()

    def clear(self) -> None:
        """Forget everything."""
        self._delta = Delta(self._delta.dimensions)
        self._segments = self._orphans = self._joining = ()
        self._waiting.clear()
        self._removals = RecentRemovals()

    # -- segments come and go ---------------------------------------------------------------

    def join(self, fresh: Sequence[Segment]) -> None:
        """Make adds and removals know of segments that searches do not see yet."""
        self._joining = tuple(fresh)

    def settle(self, position: Position) -> Iterator[None]:
        """Agree with the joining segments on who answers for what; yields between steps.

        Args:
            position: Up to which changes of the feed are in the segments already.
        """
        removed = self._removals.keys()
        selectors = self._removals.selectors_after(position)
        held = [point.key for point in self._delta.points()]
        for segment in self._joining:
            with noting_damage(segment):
                for keys in _slices(removed):
                    self._take_out(segment, keys, removed)
                    yield
                for removal in selectors:
                    segment.remove(removal.selector, removal.before)
                    yield
                for keys in _slices(held):
                    self._let_wait(segment, keys)
                    yield

    def commit(
        self, segments: Iterable[Segment], orphans: Iterable[Segment], position: Position
    ) -> None:
        """Show ``segments`` and ``orphans`` to searches from now on, and no others.

        Args:
            segments: Those of the manifest.
            orphans: Mapped ones that no manifest names any more: searched, and given up point by
                point as their points are added anew.
            position: Up to which changes of the feed are in the segments.
        """
        self._segments, self._orphans = tuple(segments), tuple(orphans)
        self._removals.forget_selectors_to(position)
        self.abandon()

    def abandon(self) -> None:
        """Forget the joining segments that were not shown."""
        self._joining = ()
        self._waiting = {
            key: place for key, place in self._waiting.items() if place[0] in self._segments
        }

    def hand_over(self) -> Iterator[None]:
        """Let the segments answer for what the delta holds as well; yields between steps."""
        while self._waiting:
            places: dict[Segment, list[tuple[CacheKey, int]]] = {}
            for key in list(islice(self._waiting, _AT_ONCE)):
                segment, row = self._waiting.pop(key)
                places.setdefault(segment, []).append((key, row))
            for segment, rows in places.items():
                with noting_damage(segment):
                    self._hand_over(segment, rows)
            yield

    # -- what there is ----------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many points there are that can match."""
        return len(self._delta) + sum(segment.live.count() for segment in self._shown())

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Segments of the manifest, broken ones left out."""
        return tuple(s for s in self._segments if s.broken is None)

    @property
    def orphans(self) -> tuple[Segment, ...]:
        """Mapped segments that no manifest names, broken ones left out."""
        return tuple(s for s in self._orphans if s.broken is None)

    def broken(self) -> list[Segment]:
        """Return the segments that were found to be broken since they were shown."""
        return [s for s in self._segments + self._orphans if s.broken is not None]

    def note_broken(self, name: str, reason: str) -> None:
        """Note that the segment of that name is not what was written."""
        for segment in self.segments:
            if segment.name == name:
                segment.broken = reason

    def delta_rows(self) -> list[DeltaRow]:
        """Return the points of the delta; another thread may read them."""
        return self._delta.rows()

    def delta_size(self) -> tuple[int, int]:
        """Return points and bytes of the delta."""
        return len(self._delta), self._delta.size_bytes

    def sizes(self) -> list[Size]:
        """Return the sizes of the manifest's segments."""
        return [
            Size(s.name, s.record.shape.rows, s.live.count() + s.live.waiting)
            for s in self.segments
        ]

    # ---------------------------------------------------------------------------------------

    def _shown(self) -> tuple[Segment, ...]:
        return self.segments + self.orphans

    def _known(self) -> tuple[Segment, ...]:
        return self._shown() + tuple(s for s in self._joining if s.broken is None)

    def _rows_of(self, key: CacheKey) -> Iterator[tuple[Segment, int]]:
        for segment in self._known():
            row = _find(segment, key)
            if row is not None:
                yield segment, row

    def _keep_bounds(self) -> None:
        while (
            len(self._delta) > 2 * self._bounds.delta_points
            or self._delta.size_bytes > 2 * self._bounds.delta_bytes
        ):
            self._delta.drop_first_to_expire()

    def _take_out(
        self, segment: Segment, keys: list[CacheKey], removed: dict[CacheKey, Position]
    ) -> None:
        numbers, rows = segment.find_all(keys)
        before = np.array([removed[keys[number]] for number in numbers.tolist()], np.int64)
        segment.live.mark(rows[segment.positions(rows) < before], RowState.REMOVED)

    def _let_wait(self, segment: Segment, keys: list[CacheKey]) -> None:
        numbers, rows = segment.find_all(keys)
        points = [self._delta.get(keys[number]) for number in numbers.tolist()]
        there = np.array([point is not None for point in points], np.bool_)
        for point, row in _newer(segment, rows[there], points, RowState.WAITING):
            self._waiting[point.key] = segment, row

    def _wait(self, segment: Segment, key: CacheKey, row: int) -> None:
        segment.live.mark(np.array([row]), RowState.WAITING)
        self._waiting[key] = segment, row

    def _hand_over(self, segment: Segment, places: list[tuple[CacheKey, int]]) -> None:
        segment.check()
        waiting = [
            (self._delta.get(key), row)
            for key, row in places
            if segment.live.states[row] == RowState.WAITING
        ]
        # Those that left the delta, for want of room, were not removed.
        free = np.array([row for point, row in waiting if point is None], np.intp)
        segment.live.mark(free, RowState.HELD)
        rows = np.array([row for point, row in waiting if point is not None], np.intp)
        # In this order: a search on another thread must not find neither.
        for point, _ in _newer(segment, rows, [point for point, _ in waiting], RowState.HELD):
            self._delta.discard(point.key)


def _newer(
    segment: Segment, rows: Rows, points: Iterable[Point | None], state: RowState
) -> list[tuple[Point, int]]:
    """Remove the rows that are older than their points, and give the others ``state``.

    Args:
        segment: Of the rows.
        rows: Distinct.
        points: The delta's point of each row; each ``None`` is passed over.
        state: What the others become.

    Returns:
        The points of the others, and their rows.
    """
    held = [point for point in points if point is not None]
    newer = segment.mark_older(
        rows,
        np.array([point.position for point in held], np.int64),
        np.array([point.expires_at for point in held], np.float64),
        state,
    )
    return [(held[number], int(rows[number])) for number in np.flatnonzero(newer)]


def _find(segment: Segment, key: CacheKey) -> int | None:
    # Without `noting_damage`, which costs as much as the search: `add` asks every segment.
    try:
        return segment.find(key)
    except (Damaged, OSError) as error:
        segment.broken = str(error)
        return None


def _nearest(segment: Segment, partition: bytes, vector: Vector, k: int, now: float) -> Near:
    try:
        return segment.nearest(partition, vector, k, now)
    except (Damaged, OSError) as error:
        segment.broken = str(error)
        return Near.none()


def _candidate(cosine: float, point: Point) -> Candidate:
    return Candidate(
        point.key,
        point.text,
        point.temperature,
        point.expires_at,
        point.position,
        min(max(cosine, 0.0), 1.0),
    )


def _candidates(segment: Segment, near: list[tuple[float, int]], now: float) -> list[Candidate]:
    try:
        return segment.candidates(near, now)
    except (Damaged, OSError) as error:
        segment.broken = str(error)
        return []


def _is_held(segment: Segment, row: int) -> bool:
    return bool(segment.live.states[row] != RowState.REMOVED)


def _slices(keys: Iterable[CacheKey]) -> Iterator[list[CacheKey]]:
    rest = iter(keys)
    while part := list(islice(rest, _AT_ONCE)):
        yield part
