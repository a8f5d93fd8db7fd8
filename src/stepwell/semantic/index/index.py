"""The vector index of one worker: segments that all workers share, and what it added since."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stepwell.core.clock import Clock
from stepwell.core.entry import Selector
from stepwell.core.events import Degraded
from stepwell.core.names import CacheKey, Position
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Vector
from stepwell.semantic.index import tiers
from stepwell.semantic.index.adoption import Adoption, load
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.flushing import Kept, flush
from stepwell.semantic.index.folder import Folder, Stamp
from stepwell.semantic.index.live import RowState
from stepwell.semantic.index.manifest import Identity, Manifest, SegmentRecord
from stepwell.semantic.index.merge_process import FoundDamage, MergeFailed, MergeProcess
from stepwell.semantic.index.merging import Job
from stepwell.semantic.index.point import Candidate, Point, checked_vector
from stepwell.semantic.index.segment import Segment
from stepwell.semantic.index.view import View

T = TypeVar("T")

COMPONENT = "semantic.index"
"""What `Degraded` events call the index."""

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """Points that this worker's view may lack: those of entries filled after ``after``.

    There is one after the start, and whenever something of the index was lost.
    """

    after: Position


@dataclass(frozen=True, slots=True)
class Contents:
    """How much an index holds."""

    points: int
    """That can match, some seconds ago."""
    delta_points: int
    delta_bytes: int
    segments: int
    generation: int


class VectorIndex:
    """Nearest points within a partition, over a directory that worker processes share.

    A view derived from the store: it may lose anything, and then reports a `gap`. It belongs to
    one event loop: all methods are called there, but `search` and `cost_hint`, which are safe on
    any thread. Reading and writing files is done on threads, merging by a process of its own;
    what is written becomes visible by one assignment on the loop.

    Nothing happens by itself. The owner calls `refresh` at the start, and then, about twice a
    second, `maintain`; it follows the change feed with `add`, `remove` and `remove_where`.

    Args:
        directory: For this index alone; made when it is first written.
        identity: Whose vectors it holds. Another identity's segments are not used, and deleted
            with the first write: give each model a directory of its own.
        bounds: Limits.
        clock: Time.
        events: Told of everything that fails, as `Degraded`.
    """

    def __init__(
        self,
        directory: Path,
        identity: Identity,
        *,
        bounds: Bounds,
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Make an empty view. No I/O."""
        self._folder = Folder(directory, identity)
        self._dimensions = identity.dimensions
        self._bounds = bounds
        self._clock = clock
        self._events = events
        self._view = View(identity.dimensions, bounds)
        self._turn = asyncio.Lock()
        self._stamp: Stamp | None = None
        self._manifest: Manifest | None = None
        self._gap: Gap | None = Gap(Position(0))
        self._floor = Position(0)
        self._lost: set[str] = set()
        """Segments the manifest names that are damaged."""
        self._misplaced: set[str] = set()
        """Segments that are mapped, but are not in the directory any more."""
        self._merge: MergeProcess | None = None
        self._flush_wait = _Wait(clock)
        self._merge_wait = _Wait(clock)

    # -- searches and changes ---------------------------------------------------------------

    def search(self, partition: bytes, vector: Vector, k: int, now: float) -> list[Candidate]:
        """Return up to ``k`` points of ``partition`` that are nearest to ``vector``, best first.

        Neither expired nor removed points are among them. Exact where the partition is scanned;
        in inverted files, of ``Bounds.ivf_rows`` and more, some may be missed, near ones least.
        Similarities are exact everywhere. Does not block but for reads of mapped files; takes
        tens of microseconds for a thousand points, and some 50 ns for each more: ask `cost_hint`.

        Args:
            partition: 32 bytes.
            vector: Shape ``(dimensions,)``, of unit length.
            k: At least 1.
            now: Seconds since the epoch.

        Raises:
            ValueError: The vector has another shape or length, or NaN in it.
        """
        return self._view.search(partition, checked_vector(vector, self._dimensions), k, now)

    def cost_hint(self, partition: bytes) -> int:
        """Return how many rows a search of ``partition`` scans, about. Costs microseconds."""
        return self._view.cost(partition)

    def add(self, point: Point, vector: Vector) -> bool:
        """Add ``point``, in place of an older one under its key; searches see it at once.

        Of two points of one key the one of the later position is newer, then the one that expires
        later. Costs tens of microseconds. While the delta is at twice its bounds, because nothing
        can be written, the point next to expire leaves.

        Returns:
            ``False`` if the index has that point, or a newer one, already.

        Raises:
            ValueError: As `search`.
        """
        return self._view.add(point, checked_vector(vector, self._dimensions))

    def holds(self, key: CacheKey, expires_at: float) -> bool:
        """Return whether there is a point of this key that expires then, or later."""
        return self._view.holds(key, expires_at)

    def remove(self, key: CacheKey, before: Position | None = None) -> bool:
        """Remove the point under ``key``: it matches no more, and leaves memory.

        Args:
            key: Of the entry.
            before: Only if the point's position is lower; always without.

        Returns:
            Whether there was one.
        """
        return self._view.remove(key, before)

    def remove_where(self, selector: Selector, before: Position) -> int:
        """Remove the points of entries that ``selector`` means: an `Invalidated` of the feed.

        Costs microseconds with a key or a tag, else a pass over all points' records, some 5 ms for
        a million.

        Args:
            selector: Which entries.
            before: Position of the change; points of this position and later stay.

        Returns:
            How many points there were.
        """
        return self._view.remove_where(selector, before)

    # -- agreeing with the store ------------------------------------------------------------

    @property
    def gap(self) -> Gap | None:
        """What must be added again from the store; ``None`` if the view is complete.

        Until `close_gap`, what this worker writes does not claim to be complete.
        """
        return self._gap

    def close_gap(self, gap: Gap) -> None:
        """Say that every entry the store holds from after ``gap.after`` has been added.

        Does nothing if `gap` has become another one meanwhile: something more was lost.
        """
        if self._gap is gap:
            self._gap = None
            self._view.drop_orphans()

    def clear(self, position: Position) -> None:
        """Forget everything, as a `Lost` of the feed asks for.

        Args:
            position: Segments written by workers that had not read the feed up to here are not
                used any more.
        """
        self._view.clear()
        self._floor = position
        self._manifest = self._stamp = None
        self._gap = Gap(Position(0))

    def contents(self) -> Contents:
        """Return how much there is. Costs microseconds, and some 20 for a million points."""
        delta_points, delta_bytes = self._view.delta_size()
        return Contents(
            len(self._view),
            delta_points,
            delta_bytes,
            len(self._view.segments),
            0 if self._manifest is None else self._manifest.generation,
        )

    # -- files ------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Take over what other workers have written since. Without news it costs one ``stat``.

        A new segment is read and verified on a thread, at some GB a second. What cannot be used is
        told to the events, and leaves a `gap`. Never raises for what is in the directory.
        """
        async with self._turn:
            await self._refresh()

    async def maintain(self, position: Position) -> None:
        """Refresh, keep the bounds, write what is due, and begin or follow a merge.

        Waits for a flush, tens of milliseconds, but not for a merge. Never raises for what is in
        the directory, nor for a full disk; it tries again, after a second at first.

        Args:
            position: Of the feed; this worker has obeyed every change up to it.
        """
        await self.refresh()
        self._view.drop_expired(self._clock.now())
        self._view.evict()
        if self._flush_is_due() and self._flush_wait.is_over():
            await self.flush(position)
        await self._follow_merge()

    async def flush(self, position: Position) -> bool:
        """Write the delta as a segment, and which rows are dead; return whether that was done.

        Done by `maintain` when it is due. At the end of a process it saves adding the same points
        again after the next start.

        It is not done by a worker that has read less of the feed than another that wrote, nor if
        writing fails, which the events are told.

        Args:
            position: As for `maintain`.
        """
        async with self._turn:
            try:
                with ExitStack() as held:
                    await _on_thread(self._folder.make)
                    await _on_thread(lambda: held.enter_context(self._folder.publishing()))
                    await self._refresh()
                    written = await self._write(position)
                    await self._refresh()
            except OSError as error:
                self._flush_wait.lengthen()
                self._degraded(f"flush: {error}")
                return False
            self._flush_wait.reset()
            return written

    async def aclose(self) -> None:
        """End a merge this worker began, and forget everything. May be called twice."""
        if self._merge is not None:
            merge, self._merge = self._merge, None
            await _on_thread(merge.stop)
        self._view.clear()

    # ---------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        self._drop_broken()
        try:
            if self._folder.stamp() == self._stamp:
                return
            held = {segment.name: segment for segment in self._view.segments}
            adoption = await _on_thread(
                lambda: load(self._folder, held, nprobe=self._bounds.nprobe)
            )
        except OSError as error:
            self._degraded(f"refresh: {error}")
            return
        self._report(adoption)
        await self._adopt(adoption)

    async def _adopt(self, adoption: Adoption) -> None:
        manifest = adoption.manifest
        if manifest is not None and manifest.position < self._floor:
            manifest = None
        before = self._manifest
        position = Position(0) if manifest is None else manifest.position
        fresh = [] if manifest is None else adoption.fresh
        for segment in adoption.kept:
            if segment.name in adoption.dead:
                _take_dead(segment, *adoption.dead[segment.name])
        self._view.join(fresh)
        try:
            await _in_steps(self._view.settle(position))
            orphans = self._orphans(manifest)
            self._view.commit(
                [s for s in adoption.kept if manifest is not None] + fresh, orphans, position
            )
        finally:
            self._view.abandon()
        self._note_losses(adoption, before, manifest)
        self._manifest = manifest
        # Once more next time, if something could not be opened.
        self._stamp = None if adoption.unavailable else adoption.stamp
        await _in_steps(self._view.hand_over())

    def _orphans(self, manifest: Manifest | None) -> list[Segment]:
        """Return the segments to be searched on though no manifest names them."""
        before = self._manifest
        gone = self._misplaced
        if before is not None and (manifest is None or manifest.lineage != before.lineage):
            gone = {segment.name for segment in self._view.segments}
        self._misplaced = set()
        return [*self._view.orphans, *(s for s in self._view.segments if s.name in gone)]

    def _note_losses(
        self, adoption: Adoption, before: Manifest | None, manifest: Manifest | None
    ) -> None:
        lost = adoption.damaged.keys() - self._lost
        self._lost = set(adoption.damaged)
        if before is None:
            # The start: what the segments hold need not be added again.
            if self._gap is not None and manifest is not None:
                self._gap = Gap(manifest.position)
        elif manifest is None or manifest.lineage != before.lineage:
            lost |= {"all"}
        elif manifest.position < before.position and not self._is_rebuilding():
            lost |= {"what another worker found damaged"}
        if lost:
            self._gap = Gap(Position(0))

    def _drop_broken(self) -> None:
        broken = self._view.broken()
        if not broken:
            return
        for segment in broken:
            self._degraded(f"segment {segment.name}: {segment.broken}")
            self._lost.add(segment.name)
        position = Position(0) if self._manifest is None else self._manifest.position
        self._view.commit(self._view.segments, self._view.orphans, position)
        self._gap = Gap(Position(0))

    async def _write(self, position: Position) -> bool:
        """Write what this worker has. Call under the lock, and with the current manifest read."""
        current = await _on_thread(self._folder.usable_manifest)
        if self._gap is not None:
            position = self._gap.after
        if position < current.position and not self._is_rebuilding():
            return False
        if current.position < self._floor:
            kept = []
        else:
            kept = await _on_thread(lambda: self._kept(current))
        rows = self._view.delta_rows()
        if self._misplaced:
            self._degraded("segments are gone from the directory")
            self._gap, position = Gap(Position(0)), Position(0)
        await _on_thread(lambda: flush(self._folder, current, kept, rows, position))
        self._floor = Position(0)
        return True

    def _is_rebuilding(self) -> bool:
        """Return whether what is written may claim less than what is there does."""
        return self._gap is not None and not self._gap.after

    def _kept(self, current: Manifest) -> list[Kept]:
        """Return the segments of ``current`` that go on, each with its rows removed since."""
        held = {segment.name: segment for segment in self._view.segments}
        kept = []
        for record in current.segments:
            segment = held.get(record.name)
            if record.name in self._lost:
                continue
            if segment is not None and not self._folder.holds(record):
                self._misplaced.add(record.name)
                continue
            if segment is None or segment.live.removed == segment.published:
                kept.append(Kept(record, None))
            else:
                kept.append(Kept(record, segment.live.states == RowState.REMOVED))
        return kept

    def _flush_is_due(self) -> bool:
        points, size_bytes = self._view.delta_size()
        return (
            points >= self._bounds.delta_points
            or size_bytes >= self._bounds.delta_bytes
            or bool(self._lost)
            or any(
                s.live.removed - s.published > self._bounds.dead_share * s.record.shape.rows
                for s in self._view.segments
            )
        )

    async def _follow_merge(self) -> None:
        if self._merge is None:
            self._begin_merge()
            return
        match self._merge.outcome():
            case None:
                return
            case FoundDamage(name, reason):
                self._merge_wait.lengthen()
                for segment in self._view.segments:
                    if segment.name == name:
                        segment.broken = reason
            case MergeFailed(reason):
                self._merge_wait.lengthen()
                self._degraded(f"merge: {reason}")
            case _:
                self._merge_wait.reset()
        self._merge = None
        await self.refresh()

    def _begin_merge(self) -> None:
        names = tiers.choose(
            self._view.sizes(),
            first_rows=2 * self._bounds.delta_points,
            fan=self._bounds.fan,
            dead_share=self._bounds.dead_share,
        )
        if not names or not self._merge_wait.is_over():
            return
        try:
            if self._folder.is_merging():
                return
        except OSError as error:
            self._merge_wait.lengthen()
            self._degraded(f"merge: {error}")
            return
        job = Job(
            str(self._folder.path.absolute()),
            self._folder.identity,
            tuple(names),
            self._bounds.ivf_rows,
            self._clock.now(),
        )
        try:
            self._merge = MergeProcess(job)
        except OSError as error:
            self._merge_wait.lengthen()
            self._degraded(f"merge: {error}")

    def _report(self, adoption: Adoption) -> None:
        if adoption.problem is not None:
            self._degraded(adoption.problem)
        if adoption.stamp is None and self._manifest is not None:
            self._degraded("the manifest is gone")
        for name, reason in {**adoption.damaged, **adoption.unavailable}.items():
            self._degraded(f"segment {name}: {reason}")

    def _degraded(self, error: str) -> None:
        self._events.emit(Degraded(COMPONENT, error))


def _take_dead(segment: Segment, record: SegmentRecord, dead: npt.NDArray[np.bool_]) -> None:
    segment.record = record
    segment.live.mark(np.flatnonzero(dead), RowState.REMOVED)
    segment.published = int(np.count_nonzero(dead))


class _Wait:
    """How long not to try again, after failures: twice as long each time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds = _FIRST_WAIT_SECONDS
        self._until = -np.inf

    def is_over(self) -> bool:
        return self._clock.monotonic() >= self._until

    def lengthen(self) -> None:
        self._until = self._clock.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, _LONGEST_WAIT_SECONDS)

    def reset(self) -> None:
        self._seconds = _FIRST_WAIT_SECONDS
        self._until = -np.inf


async def _on_thread(work: Callable[[], T]) -> T:
    """Run ``work`` on a thread; if cancelled, wait for it all the same: it may hold a lock."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


async def _in_steps(steps: Iterator[None]) -> None:
    for _ in steps:
        await asyncio.sleep(0)
