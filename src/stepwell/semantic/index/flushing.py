"""Writing a delta as a segment, and what was removed since; done on a thread under the lock."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stepwell.core.vectors import Vectors
from stepwell.semantic.index.delta import DeltaRow
from stepwell.semantic.index.folder import Folder, new_name
from stepwell.semantic.index.manifest import Manifest, SegmentRecord
from stepwell.semantic.index.progress import Progress
from stepwell.semantic.index.segment_files import write_dead, write_segment
from stepwell.semantic.index.table import encoded_text, tabulate

T = TypeVar("T")

_PAUSE_SECONDS = 0.0002
_ROWS_AT_ONCE = 128


@dataclass(frozen=True, slots=True)
class Kept:
    """A segment that goes on."""

    record: SegmentRecord
    removed: npt.NDArray[np.bool_] | None
    """Its removed rows, if the manifest does not know of all of them."""


def pause() -> None:
    """Let other threads run: this one computes, and nobody waits for it."""
    time.sleep(_PAUSE_SECONDS)


def flush(
    folder: Folder,
    current: Manifest,
    kept: Sequence[Kept],
    rows: Sequence[DeltaRow],
    progress: Progress,
) -> None:
    """Publish ``kept`` and, as a segment, ``rows``. Call under `Folder.publishing`.

    Args:
        folder: Where.
        current: The manifest there is now.
        kept: Segments that go on.
        rows: Points of the delta, with distinct keys; may be none.
        progress: What is in all that.

    Raises:
        OSError: Such as for a full disk. The manifest is the one it was.
    """
    segments = [_with_dead(folder, segment, current.generation + 1) for segment in kept]
    name = new_name()
    try:
        if rows:
            segments.append(_written(folder, name, rows))
        folder.publish(current.followed_by(tuple(segments), progress))
    except BaseException:
        shutil.rmtree(folder.segment(name), ignore_errors=True)
        raise


def _with_dead(folder: Folder, segment: Kept, generation: int) -> SegmentRecord:
    if segment.removed is None:
        return segment.record
    directory = folder.segment(segment.record.name)
    return replace(segment.record, dead=write_dead(directory, generation, segment.removed))


def _written(folder: Folder, name: str, rows: Sequence[DeltaRow]) -> SegmentRecord:
    ordered = sorted(rows, key=_partition)
    points = [point for point, _, _ in ordered]
    built = folder.building(name, merge=False)
    try:
        record = write_segment(
            built,
            name,
            tabulate(points, pause),
            _chunks(ordered, _vectors),
            _chunks(ordered, _texts),
            ivf_rows=None,
        )
        folder.put_in_place(built, name)
    finally:
        shutil.rmtree(built, ignore_errors=True)
    return record


def _partition(row: DeltaRow) -> bytes:
    return row[0].partition


def _chunks(rows: Sequence[DeltaRow], make: Callable[[Sequence[DeltaRow]], T]) -> Iterator[T]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        pause()
        yield make(rows[start : start + _ROWS_AT_ONCE])


def _vectors(rows: Sequence[DeltaRow]) -> Vectors:
    return np.stack([vectors[row] for _, vectors, row in rows])


def _texts(rows: Sequence[DeltaRow]) -> bytes:
    return b"".join(encoded_text(point.text) for point, _, _ in rows)
