"""One worker's view and the directory that all share: reading it, and writing to it."""

from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from stepwell.core.events import Degraded
from stepwell.core.names import Position
from stepwell.core.ports import EventSink
from stepwell.semantic.index.adoption import Adoption, load
from stepwell.semantic.index.flushing import Kept, flush
from stepwell.semantic.index.folder import Folder, Stamp
from stepwell.semantic.index.live import RowState
from stepwell.semantic.index.manifest import Manifest, SegmentRecord
from stepwell.semantic.index.progress import NOTHING, Gap, Progress
from stepwell.semantic.index.segment import Segment
from stepwell.semantic.index.view import View
from stepwell.semantic.index.waits import in_steps, on_thread

COMPONENT = "semantic.index"
"""What `Degraded` events call the index."""


class Sharing:
    """Makes a view agree with the directory's manifest, and publishes what the view has.

    Only one call at a time; calls are made on the event loop.
    """

    def __init__(self, view: View, folder: Folder, *, nprobe: int, events: EventSink) -> None:
        self._view = view
        self._folder = folder
        self._nprobe = nprobe
        self._events = events
        self._stamp: Stamp | None = None
        self._manifest: Manifest | None = None
        self._gap: Gap | None = Gap(NOTHING)
        self._floor = Position(0)
        self._lost: set[str] = set()
        """Segments the manifest names that are damaged."""
        self._misplaced: set[str] = set()
        """Segments that are mapped, but are not in the directory any more."""

    @property
    def gap(self) -> Gap | None:
        """What the view may lack."""
        return self._gap

    @property
    def generation(self) -> int:
        """Of the manifest that the view agrees with; 0 without one."""
        return 0 if self._manifest is None else self._manifest.generation

    @property
    def has_losses(self) -> bool:
        """Whether the manifest names segments that are damaged, and should be replaced."""
        return bool(self._lost)

    def close_gap(self, gap: Gap) -> None:
        """Note that the view lacks nothing; see `VectorIndex.close_gap`."""
        if self._gap is gap:
            self._gap = None
            self._view.drop_orphans()

    def clear(self, position: Position) -> None:
        """Forget everything; see `VectorIndex.clear`."""
        self._view.clear()
        self._floor = position
        self._manifest = self._stamp = None
        self._gap = Gap(NOTHING)

    async def flush(self, progress: Progress) -> bool:
        """Publish what the view has; see `VectorIndex.flush`. Raises `OSError`."""
        with ExitStack() as held:
            await on_thread(self._folder.make)
            await on_thread(lambda: held.enter_context(self._folder.publishing()))
            await self.refresh()
            written = await self._write(progress)
            await self.refresh()
        return written

    async def refresh(self) -> None:
        """Take over what has been published since; see `VectorIndex.refresh`."""
        self._drop_broken()
        try:
            if self._folder.stamp() == self._stamp:
                return
            held = {segment.name: segment for segment in self._view.segments}
            adoption = await on_thread(lambda: load(self._folder, held, nprobe=self._nprobe))
        except OSError as error:
            self._degraded(f"refresh: {error}")
            return
        self._report(adoption)
        await self._adopt(adoption)

    async def _adopt(self, adoption: Adoption) -> None:
        manifest = adoption.manifest
        if manifest is not None and manifest.progress.position < self._floor:
            manifest = None
        before = self._manifest
        position = Position(0) if manifest is None else manifest.progress.position
        fresh = [] if manifest is None else adoption.fresh
        for segment in adoption.kept:
            if segment.name in adoption.dead:
                _take_dead(segment, *adoption.dead[segment.name])
        self._view.join(fresh)
        try:
            await in_steps(self._view.settle(position))
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
        await in_steps(self._view.hand_over())

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
                self._gap = Gap(manifest.progress)
        elif manifest is None or manifest.lineage != before.lineage:
            lost |= {"all"}
        elif not manifest.progress.reaches(before.progress) and not self._is_rebuilding():
            lost |= {"what another worker found damaged"}
        if lost:
            self._gap = Gap(NOTHING)

    def _drop_broken(self) -> None:
        broken = self._view.broken()
        if not broken:
            return
        for segment in broken:
            self._degraded(f"segment {segment.name}: {segment.broken}")
            self._lost.add(segment.name)
        position = Position(0) if self._manifest is None else self._manifest.progress.position
        self._view.commit(self._view.segments, self._view.orphans, position)
        self._gap = Gap(NOTHING)

    async def _write(self, progress: Progress) -> bool:
        """Write what this worker has. Call under the lock, and with the current manifest read."""
        current = await on_thread(self._folder.usable_manifest)
        if self._gap is not None:
            progress = self._gap.after
        if not (progress.reaches(current.progress) or self._is_rebuilding()):
            return False
        if current.progress.position < self._floor:
            kept = []
        else:
            kept = await on_thread(lambda: self._kept(current))
        rows = self._view.delta_rows()
        if self._misplaced:
            self._degraded("segments are gone from the directory")
            self._gap, progress = Gap(NOTHING), NOTHING
        await on_thread(lambda: flush(self._folder, current, kept, rows, progress))
        self._floor = Position(0)
        return True

    def _is_rebuilding(self) -> bool:
        """Return whether what is written may claim less than what is there does."""
        return self._gap is not None and self._gap.after == NOTHING

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
