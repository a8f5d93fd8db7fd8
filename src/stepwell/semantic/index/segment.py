"""A segment as one worker sees it: what it holds, what may match, what is near."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, group_is_meant
from stepwell.core.vectors import Vector
from stepwell.semantic.index import ivf, layout
from stepwell.semantic.index.live import LiveRows, RowState
from stepwell.semantic.index.manifest import Damaged, SegmentRecord
from stepwell.semantic.index.segment_files import OpenedFiles, open_files, read_dead
from stepwell.semantic.index.table import decoded_groups, tag_number

Rows = npt.NDArray[np.intp]

_SPARE = 2
"""So many more candidates than are wanted an inverted file is asked for: its scores are rounded,
by 5e-5 at most, so that the last of two that are as near may come first."""


_MAX_RANGES = 1_000
"""Partitions whose rows are remembered; some 100 bytes each."""


@dataclass(frozen=True, slots=True)
class Near:
    """Rows of one segment, and the cosine of each."""

    rows: Rows
    cosines: npt.NDArray[np.float32]

    @classmethod
    def none(cls) -> "Near":
        """Return no rows."""
        return cls(np.empty(0, np.intp), np.empty(0, np.float32))


class Segment:
    """Mapped files and the states of their rows.

    Searches are safe on any thread, while one thread changes states. Every method that reads
    what is mapped raises `Damaged` if a file has been cut short since it was verified. (Between
    that check and the read, microseconds, a cut would still end the process with SIGBUS.)
    """

    def __init__(self, files: OpenedFiles, dead: npt.NDArray[np.bool_], *, nprobe: int) -> None:
        """Take files that `open_files` has verified.

        Raises:
            Damaged: An inverted file is none.
        """
        columns = files.columns
        self.record = files.record
        """Replaced when a manifest names more dead rows."""
        self.published = int(np.count_nonzero(dead))
        """Removed rows that the manifest knows of."""
        self.broken: str | None = None
        """What was found wrong since; nobody reads it any more."""
        self._files = files
        self._sizes = {file.name: file.size for file in files.record.files}
        self._records = columns["records"]
        self._keys, self._key_rows = columns["keys"], columns["key_rows"]
        self._ranges: dict[bytes, tuple[int, int]] = {}
        self._groups = decoded_groups(columns["groups"].tobytes())
        self.live = LiveRows(
            self._records["expires"], columns["expiries"], columns["expiry_rows"], dead
        )
        try:
            self._ivfs = {
                row: ivf.map_file(
                    file.number,
                    self.live.bitmap,
                    dimensions=files.vectors.shape[1],
                    nprobe=nprobe,
                )
                for row, file in files.ivf_files.items()
            }
        except RuntimeError as error:
            raise Damaged(f"an inverted file cannot be mapped: {error}") from error

    @property
    def name(self) -> str:
        """Its name in the manifest."""
        return self.record.name

    def size_of(self, partition: bytes) -> int:
        """Return how many rows a search of ``partition`` scans, about."""
        start, stop = self._range(partition)
        index = self._ivfs.get(start)
        if index is None or start == stop:
            return stop - start
        return (stop - start) * index.everything.nprobe // index.index.nlist

    def follow(self, now: float) -> None:
        """Let what has expired by ``now`` match no longer."""
        self.check()
        self.live.follow(now)

    def nearest(self, partition: bytes, vector: Vector, k: int, now: float) -> Near:
        """Return up to ``k`` live rows of ``partition`` and their cosines, in no order."""
        self.check()
        start, stop = self._range(partition)
        if start == stop:
            return Near.none()
        self.live.follow(now)
        index = self._ivfs.get(start)
        if index is None:
            return self._scan(start, stop, vector, k)
        self._check_ivf(start)
        whole = self.live.all_live()
        # Rows are named by a mapped file: believe none that is not of this partition.
        rows = [r for r in index.nearest(vector, k + _SPARE, whole=whole) if start <= r < stop]
        return Near(np.array(rows, np.intp), self._read_vectors(rows) @ vector)

    def _scan(self, start: int, stop: int, vector: Vector, k: int) -> Near:
        cosines = self._files.vectors[start:stop] @ vector
        whole = self.live.all_live()
        if not whole:
            cosines[~self.live.range(start, stop)] = -np.inf
        rows = cosines.argpartition(-k)[-k:] if len(cosines) > k else np.arange(len(cosines))
        if not whole:
            rows = rows[cosines[rows] > -np.inf]
        return Near(rows + start, cosines[rows])

    def _read_vectors(self, rows: list[int]) -> npt.NDArray[np.float32]:
        # Read, not mapped: a fault would make 16 pages resident for one row of 1.5 KB.
        size = self._files.vectors.shape[1] * 4
        read = self._files.vectors_file.read
        content = b"".join([read(row * size, size) for row in rows])
        return np.frombuffer(content, np.float32).reshape(len(rows), size // 4)

    def candidates(self, near: Sequence[tuple[float, int]], now: float) -> list[Candidate]:
        """Return what stands in rows that `nearest` found, in order, but for expired ones.

        Args:
            near: The cosine of each row, and the row.
            now: Seconds since the epoch.
        """
        records = self._records[[row for _, row in near]].tolist()
        read = self._files.texts_file.read
        return [
            Candidate(
                CacheKey(bytes(key)),
                read(start, size).decode("utf-8", "surrogatepass"),
                None if isnan(temperature) else temperature,
                expires_at,
                Position(position),
                min(max(cosine, 0.0), 1.0),
            )
            for (cosine, _), (key, expires_at, temperature, position, start, size, _) in zip(
                near, records, strict=True
            )
            if expires_at > now
        ]

    def find(self, key: CacheKey) -> int | None:
        """Return the row of ``key``, removed or not."""
        self.check()
        number = layout.prefix(key)
        at = int(self._keys.searchsorted(number))
        if at == len(self._keys) or self._keys[at] != number:
            return None
        row = int(self._key_rows[at])
        return row if self._records["key"][row].tobytes() == key else None

    def find_all(self, keys: list[CacheKey]) -> tuple[Rows, Rows]:
        """Return which of ``keys`` are in the segment, by number, and the row of each."""
        self.check()
        if not keys:
            return np.empty(0, np.intp), np.empty(0, np.intp)
        wanted = layout.as_identifiers(b"".join(keys))
        at = np.minimum(self._keys.searchsorted(layout.prefixes(wanted)), len(self._keys) - 1)
        rows = self._key_rows[at].astype(np.intp)
        found = self._records["key"][rows] == wanted
        return np.flatnonzero(found), rows[found]

    def mark_older(
        self,
        rows: Rows,
        positions: npt.NDArray[np.int64],
        expiries: npt.NDArray[np.float64],
        otherwise: RowState,
    ) -> npt.NDArray[np.bool_]:
        """Remove those of ``rows`` that are older than their counterparts, by `age`.

        Args:
            rows: Distinct.
            positions: Of the counterparts.
            expiries: Likewise.
            otherwise: State of the others, unless they are removed.

        Returns:
            Which are not older.
        """
        mine = self.positions(rows)
        older = (mine < positions) | (
            (mine == positions) & (self._records["expires"][rows] < expiries)
        )
        self.live.mark(rows[older], RowState.REMOVED)
        self.live.mark(rows[~older], otherwise)
        newer: npt.NDArray[np.bool_] = ~older
        return newer

    def positions(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the position of each of ``rows``."""
        return cast("npt.NDArray[np.int64]", self._records["position"][rows])

    def age(self, row: int) -> tuple[int, float]:
        """Return position and expiry of ``row``: of two points of a key, the larger is newer."""
        record = self._records[row]
        return int(record["position"]), float(record["expires"])

    def remove_copies(self, other: "Segment") -> None:
        """Remove from ``other`` what was removed here: rows of the same keys that are not newer."""
        self.check()
        gone = np.flatnonzero(self.live.states == RowState.REMOVED)
        records = self._records[gone]
        numbers, rows = other.find_all([CacheKey(key.tobytes()) for key in records["key"]])
        mine, theirs = records[numbers], other._records[rows]  # noqa: SLF001 - one of us
        newer = (theirs["position"] > mine["position"]) | (
            (theirs["position"] == mine["position"]) & (theirs["expires"] > mine["expires"])
        )
        other.live.mark(rows[~newer], RowState.REMOVED)

    def remove(self, selector: Selector, before: Position) -> int:
        """Remove the rows that ``selector`` means, from before ``before``; return how many.

        Costs a pass over the rows' records, some 3 ms for a million; less with a key or a tag.
        """
        self.check()
        groups = np.array([group_is_meant(group, selector) for group in self._groups])
        rows = self._named(selector)
        if rows is None:
            meant = self._records["position"] < before
            if not groups.all():
                meant &= groups[self._records["group"]]
            rows = np.flatnonzero(meant)
        else:
            records = self._records[rows]
            rows = rows[groups[records["group"]] & (records["position"] < before)]
        return self.live.mark(rows, RowState.REMOVED)

    def _named(self, selector: Selector) -> Rows | None:
        """Return the rows that key and tag of ``selector`` mean; ``None`` if it has neither."""
        rows = None if selector.tag is None else self._tagged(selector.tag)
        if selector.key is None:
            return rows
        row = self.find(selector.key)
        if row is None or (rows is not None and row not in rows):
            return np.empty(0, np.intp)
        return np.array([row], np.intp)

    def _tagged(self, tag: str) -> Rows:
        columns, number = self._files.columns, np.uint64(tag_number(tag))
        first = int(np.searchsorted(columns["tags"], number, side="left"))
        last = int(np.searchsorted(columns["tags"], number, side="right"))
        return np.unique(columns["tag_rows"][first:last]).astype(np.intp)

    def _range(self, partition: bytes) -> tuple[int, int]:
        """Return the first row of a partition and the one behind its last; 0, 0 if it has none."""
        found = self._ranges.get(partition)
        if found is None:
            found = self._found_range(partition)
            if len(self._ranges) >= _MAX_RANGES:
                self._ranges.clear()
            self._ranges[partition] = found
        return found

    def _found_range(self, partition: bytes) -> tuple[int, int]:
        columns = self._files.columns
        prefixes, ids = columns["partition_prefixes"], columns["partition_ids"]
        number = layout.prefix(partition)
        at = int(prefixes.searchsorted(number))
        while at < len(prefixes) and prefixes[at] == number:
            if ids[at].tobytes() == partition:
                start, stop = columns["partition_starts"][at : at + 2].tolist()
                return start, stop
            at += 1
        return 0, 0

    def check(self) -> None:
        """Raise `Damaged` if a mapped file has been cut short."""
        if not self._files.are_whole():
            raise Damaged("a file of a segment was cut short while in use")

    def _check_ivf(self, start: int) -> None:
        if self._files.ivf_files[start].size() != self._sizes[f"ivf-{start}"]:
            raise Damaged("an inverted file was cut short while in use")


def open_segment(
    directory: Path, record: SegmentRecord, *, dimensions: int, nprobe: int
) -> Segment:
    """Verify and map a segment. Costs a read of all its files.

    Raises:
        Damaged: Something of it is not what was written.
        OSError: It cannot be opened now.
    """
    files = open_files(directory, record, dimensions)
    return Segment(files, read_dead(directory, record), nprobe=nprobe)


@contextmanager
def noting_damage(segment: Segment) -> Iterator[None]:
    """Mark ``segment`` as broken if what is done inside finds that it is.

    What finds it broken again is not run any more: callers leave broken segments out.
    """
    try:
        yield
    except (Damaged, OSError) as error:
        segment.broken = str(error)
