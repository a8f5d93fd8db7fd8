"""Merging segments: the long work, done by a short-lived process of its own.

    python -P -m stepwell.semantic.index.merging JOB

``JOB`` is a `Job` as JSON. Everything goes through the directory: whoever is told that the process
has ended, or is not told because it was killed first, looks at the manifest as always.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import faiss
import msgspec
import numpy as np
import numpy.typing as npt

from stepwell.core.vectors import Vectors
from stepwell.semantic.index.folder import Folder, new_name
from stepwell.semantic.index.manifest import Damaged, Identity, Manifest, SegmentRecord
from stepwell.semantic.index.segment_files import (
    OpenedFiles,
    open_files,
    read_dead,
    write_dead,
    write_segment,
)
from stepwell.semantic.index.table import Merged, Part, merge

EXIT_DAMAGED = 3
"""A segment is not what was written; its name is on stdout."""
EXIT_BUSY = 4
"""Somebody else merges, or has changed the segments meanwhile: nothing was done."""

Dead = npt.NDArray[np.bool_]

_ROWS_AT_ONCE = 4_096
_TRIES = 5
_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Job:
    """What to merge."""

    directory: str
    identity: Identity
    segments: tuple[str, ...]
    ivf_rows: int
    now: float
    """Rows that have expired by then are left out."""


class SegmentDamaged(Exception):
    """One of the segments cannot be merged.

    Attributes:
        segment: Its name.
    """

    def __init__(self, segment: str, reason: Damaged) -> None:
        super().__init__(str(reason))
        self.segment = segment


@dataclass(frozen=True, slots=True)
class _Input:
    files: OpenedFiles
    keep: npt.NDArray[np.bool_]


def run(job: Job) -> bool:
    """Merge the job's segments into one and publish that.

    Rows that were declared dead while this was going on are declared dead in the new segment.

    Returns:
        Whether it did; ``False`` if the segments are not all there any more.

    Raises:
        BlockingIOError: Another process merges.
        SegmentDamaged: Nothing was done.
        OSError: Such as for a full disk. Nothing was done.
    """
    folder = Folder(Path(job.directory), job.identity)
    with folder.merging():
        folder.sweep_merges()
        chosen = _choose(folder, job)
        if chosen is None:
            return False
        inputs = [_open(folder, record, dead, job) for record, dead in chosen]
        merged = merge([Part(source.files.columns, source.keep) for source in inputs])
        name = new_name()
        built = folder.building(name, merge=True)
        try:
            return _publish(folder, job, merged, _write(built, name, inputs, merged, job))
        finally:
            shutil.rmtree(built, ignore_errors=True)


def _records(manifest: Manifest, names: Sequence[str]) -> list[SegmentRecord] | None:
    found = [record for name in names if (record := manifest.named(name)) is not None]
    return found if len(found) == len(names) else None


def _choose(folder: Folder, job: Job) -> list[tuple[SegmentRecord, Dead]] | None:
    """Return the segments and their dead rows; ``None`` if they are not all there."""
    for _ in range(_TRIES):
        stamp = folder.stamp()
        records = _records(folder.usable_manifest(), job.segments)
        if records is None:
            return None
        try:
            return [(record, _read_dead(folder, record)) for record in records]
        except SegmentDamaged:
            # Or somebody published meanwhile, and deleted the dead rows of before.
            if folder.stamp() == stamp:
                raise
    return None


def _read_dead(folder: Folder, record: SegmentRecord) -> Dead:
    try:
        return read_dead(folder.segment(record.name), record)
    except Damaged as error:
        raise SegmentDamaged(record.name, error) from error


def _open(folder: Folder, record: SegmentRecord, dead: Dead, job: Job) -> _Input:
    try:
        files = open_files(folder.segment(record.name), record, job.identity.dimensions)
    except Damaged as error:
        raise SegmentDamaged(record.name, error) from error
    return _Input(files, ~dead & (files.columns["records"]["expires"] > job.now))


def _write(
    built: Path, name: str, inputs: list[_Input], merged: Merged, job: Job
) -> SegmentRecord | None:
    if not merged.table.shape.rows:
        return None
    return write_segment(
        built,
        name,
        merged.table,
        _vectors(inputs, merged),
        _texts(inputs, merged),
        ivf_rows=job.ivf_rows,
    )


def _vectors(inputs: list[_Input], merged: Merged) -> Iterator[Vectors]:
    for start in range(0, len(merged.rows), _ROWS_AT_ONCE):
        parts = merged.parts[start : start + _ROWS_AT_ONCE]
        rows = merged.rows[start : start + _ROWS_AT_ONCE]
        chunk = np.empty((len(rows), inputs[0].files.vectors.shape[1]), np.float32)
        for index in np.unique(parts):
            mine = parts == index
            chunk[mine] = inputs[index].files.vectors[rows[mine]]
        yield chunk


def _texts(inputs: list[_Input], merged: Merged) -> Iterator[bytes]:
    records = [source.files.columns["records"] for source in inputs]
    for start in range(0, len(merged.rows), _ROWS_AT_ONCE):
        places = zip(
            merged.parts[start : start + _ROWS_AT_ONCE].tolist(),
            merged.rows[start : start + _ROWS_AT_ONCE].tolist(),
            strict=True,
        )
        yield b"".join(
            inputs[part].files.texts_file.read(
                int(records[part]["text_start"][row]), int(records[part]["text_bytes"][row])
            )
            for part, row in places
        )


def _publish(folder: Folder, job: Job, merged: Merged, record: SegmentRecord | None) -> bool:
    with folder.publishing():
        current = folder.usable_manifest()
        inputs = _records(current, job.segments)
        if inputs is None:
            return False
        others = tuple(s for s in current.segments if s.name not in job.segments)
        if record is not None:
            dead = _died_meanwhile(folder, inputs, merged)
            folder.put_in_place(folder.building(record.name, merge=True), record.name)
            if dead.any():
                directory = folder.segment(record.name)
                dead_file = write_dead(directory, current.generation + 1, dead)
                record = replace(record, dead=dead_file)
            others = (*others, record)
        folder.publish(current.followed_by(others, current.progress))
        return True


def _died_meanwhile(
    folder: Folder, inputs: list[SegmentRecord], merged: Merged
) -> npt.NDArray[np.bool_]:
    dead = np.zeros(len(merged.rows), np.bool_)
    for index, record in enumerate(inputs):
        gone = _read_dead(folder, record)
        mine = merged.parts == index
        dead[mine] = gone[merged.rows[mine]]
    return dead


def main(arguments: Sequence[str]) -> int:
    """Run the job in the only argument; return the exit code."""
    os.nice(_NICENESS)
    faiss.omp_set_num_threads(1)
    try:
        return 0 if run(msgspec.json.decode(arguments[0], type=Job)) else EXIT_BUSY
    except BlockingIOError:
        return EXIT_BUSY
    except SegmentDamaged as error:
        sys.stdout.write(error.segment)
        sys.stderr.write(f"{error}\n")
        return EXIT_DAMAGED
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
