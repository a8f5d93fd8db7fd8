"""The vector index of one worker: segments that all workers share, and what it added since."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from stepwell.core.clock import Clock
from stepwell.core.entry import Selector
from stepwell.core.events import Degraded
from stepwell.core.names import Arrival, CacheKey, Position
from stepwell.core.points import Candidate, Point
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Vector, checked_vector
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.folder import Folder
from stepwell.semantic.index.manifest import Identity
from stepwell.semantic.index.merger import Merger
from stepwell.semantic.index.progress import Gap, Progress
from stepwell.semantic.index.sharing import COMPONENT, Sharing
from stepwell.semantic.index.view import View
from stepwell.semantic.index.waits import Backoff

_NONE = Arrival(0)


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
        folder = Folder(directory, identity)
        self._dimensions = identity.dimensions
        self._bounds = bounds
        self._clock = clock
        self._events = events
        self._view = View(identity.dimensions, bounds)
        self._turn = asyncio.Lock()
        self._sharing = Sharing(self._view, folder, nprobe=bounds.nprobe, events=events)
        self._merger = Merger(self._view, folder, bounds=bounds, clock=clock, events=events)
        self._backoff = Backoff(clock)

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
        return self._sharing.gap

    def close_gap(self, gap: Gap) -> None:
        """Say that every entry the store holds from after ``gap.after`` has been added.

        And every change from after it obeyed.

        Does nothing if `gap` has become another one meanwhile: something more was lost.
        """
        self._sharing.close_gap(gap)

    def clear(self, position: Position) -> None:
        """Forget everything, as a `Lost` of the feed asks for.

        Args:
            position: Segments written by workers that had not read the feed up to here are not
                used any more.
        """
        self._sharing.clear(position)

    def contents(self) -> Contents:
        """Return how much there is. Costs microseconds, and some 20 for a million points."""
        delta_points, delta_bytes = self._view.delta_size()
        return Contents(
            len(self._view),
            delta_points,
            delta_bytes,
            len(self._view.segments),
            self._sharing.generation,
        )

    @property
    def is_merging(self) -> bool:
        """Whether a merge that this worker began goes on."""
        return self._merger.is_running

    # -- files ------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Take over what other workers have written since. Without news it costs one ``stat``.

        A new segment is read and verified on a thread, at some GB a second. What cannot be used is
        told to the events, and leaves a `gap`. Never raises for what is in the directory.
        """
        async with self._turn:
            await self._sharing.refresh()

    async def maintain(self, position: Position, arrival: Arrival = _NONE) -> None:
        """Refresh, keep the bounds, write what is due, and begin or follow a merge.

        Waits for a flush, tens of milliseconds, but not for a merge. Never raises for what is in
        the directory, nor for a full disk; it tries again, after a second at first.

        Args:
            position: Of the feed; this worker has obeyed every change up to it.
            arrival: Every entry up to this one has been added, so that a later start need not do
                it again; without, it looks at all.
        """
        await self.refresh()
        self._view.drop_expired(self._clock.now())
        self._view.evict()
        if self._flush_is_due() and self._backoff.is_over():
            await self.flush(position, arrival)
        self._merger.follow()

    async def flush(self, position: Position, arrival: Arrival = _NONE) -> bool:
        """Write the delta as a segment, and which rows are dead; return whether that was done.

        Done by `maintain` when it is due. At the end of a process it saves adding the same points
        again after the next start.

        It is not done by a worker that has read less of the feed than another that wrote, nor if
        writing fails, which the events are told.

        Args:
            position: As for `maintain`.
            arrival: As for `maintain`.
        """
        async with self._turn:
            try:
                written = await self._sharing.flush(Progress(position, arrival))
            except OSError as error:
                self._backoff.lengthen()
                self._events.emit(Degraded(COMPONENT, f"flush: {error}"))
                return False
            self._backoff.reset()
            return written

    async def aclose(self) -> None:
        """End a merge this worker began, and forget everything. May be called twice."""
        await self._merger.aclose()
        self._view.clear()

    def _flush_is_due(self) -> bool:
        points, size_bytes = self._view.delta_size()
        return (
            points >= self._bounds.delta_points
            or size_bytes >= self._bounds.delta_bytes
            or self._sharing.has_losses
            or any(
                s.live.removed - s.published > self._bounds.dead_share * s.record.shape.rows
                for s in self._view.segments
            )
        )
