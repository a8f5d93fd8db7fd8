"""What became of reads and writes, counted."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock


class ReadOutcome(StrEnum):
    """How looking for a block's file ended."""

    HIT = "hit"
    ABSENT = "absent"
    DAMAGED = "damaged"
    """Torn, decayed or of another block: removed, and as good as absent."""
    FAILED = "failed"
    """It is there but cannot be read: no permission, an I/O error, or not a regular file."""


class WriteOutcome(StrEnum):
    """How writing a block's file ended."""

    WRITTEN = "written"
    PRESENT = "present"
    """Somebody has written it before."""
    TOO_LARGE = "too_large"
    """It alone is larger than all that may be kept, or its header than the format can say."""
    NO_SPACE = "no_space"
    """The disk or the user's quota is full."""
    BUSY = "busy"
    """Other processes did not let go of the folder in time, or hold all the room."""
    FAILED = "failed"
    """It cannot be written: no permission, or an I/O error."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Since the process started."""

    reads: dict[ReadOutcome, int]
    writes: dict[WriteOutcome, int]
    bytes_read: int
    """Of hits."""
    bytes_written: int
    evicted_files: int
    evicted_bytes: int


class Counting:
    """Counts what happens. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reads: Counter[ReadOutcome] = Counter()
        self._writes: Counter[WriteOutcome] = Counter()
        self._bytes_read = 0
        self._bytes_written = 0
        self._evicted_files = 0
        self._evicted_bytes = 0
        self._last_error = ""

    def read(
        self, outcome: ReadOutcome, size_bytes: int = 0, error: Exception | None = None
    ) -> None:
        """Count a read, with its bytes if it was a hit, or what went wrong."""
        with self._lock:
            self._reads[outcome] += 1
            self._bytes_read += size_bytes
            self._note(error)

    def written(
        self, outcome: WriteOutcome, size_bytes: int = 0, error: Exception | None = None
    ) -> None:
        """Count a write, with its bytes if there were any, or what went wrong."""
        with self._lock:
            self._writes[outcome] += 1
            self._bytes_written += size_bytes
            self._note(error)

    def evicted(self, size_bytes: int) -> None:
        """Count a file that was made to leave."""
        with self._lock:
            self._evicted_files += 1
            self._evicted_bytes += size_bytes

    def take_last_error(self) -> str:
        """Return what went wrong last, if it was not returned before."""
        with self._lock:
            error, self._last_error = self._last_error, ""
            return error

    def snapshot(self) -> Counts:
        """Return what has been counted."""
        with self._lock:
            return Counts(
                reads={outcome: self._reads[outcome] for outcome in ReadOutcome},
                writes={outcome: self._writes[outcome] for outcome in WriteOutcome},
                bytes_read=self._bytes_read,
                bytes_written=self._bytes_written,
                evicted_files=self._evicted_files,
                evicted_bytes=self._evicted_bytes,
            )

    def _note(self, error: Exception | None) -> None:
        if error is not None:
            # Without the file's name: that all writes fail is one problem, and is said as one.
            reason = error.strerror if isinstance(error, OSError) else None
            self._last_error = f"{type(error).__name__}: {reason or error}"
