"""The files of a disk store, who may open them, and how a broken one is put aside."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepwell.core.errors import StoreUnavailable

SCHEMA_VERSION = 2
"""Stands in every file name. Raise it with the tables, `stores.messages.VERSION`, and
`stores.record.VERSION` unless records of the version before are still read: two versions of the
package that run side by side then share no file in which one cannot read the other's. Where they
do share one, the older takes the newer's records for damaged: a miss, and they are made anew."""

ENTRIES = f"entries-v{SCHEMA_VERSION}"
"""What the files of entries and their feed are called."""

KEPT_CORRUPT = 2
"""How many broken files are kept for whoever wants to know what happened."""

Identity = tuple[int, int]
"""Device and inode: which file a name means at the moment."""


def identity(path: Path) -> Identity | None:
    """Return which file ``path`` means now; ``None`` if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


class Files:
    """Paths of one store: a database, what SQLite puts beside it, and a lock.

    SQLite must never see its file renamed while it opens or closes it: it reaches the WAL by
    name, and would open, or delete, the WAL of the successor. So opening, closing and moving
    aside all hold `exclusive`. A connection that is already open is safe: it holds descriptors.

    Nothing here opens the database file: closing a descriptor of it would drop every POSIX lock
    that SQLite holds on it in this process (https://sqlite.org/howtocorrupt.html, 2.2).
    """

    def __init__(self, directory: Path, name: str = ENTRIES) -> None:
        self.directory = directory
        self.database = directory / f"{name}.sqlite"
        self.wal = directory / f"{self.database.name}-wal"
        self.generation = directory / f"{name}.generation"
        """Where there is a feed."""
        self._lock = directory / f"{name}.lock"

    def make_directory(self) -> None:
        """Make the directory, for this user only, if it is not there.

        Raises:
            StoreUnavailable: It cannot be made or written to; says what to do about it.
        """
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(self._open_lock())
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write to the disk store's directory {self.directory}: {error.strerror}; "
                f"make it writable for user id {os.getuid()}, or choose another directory"
            ) from error

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep every other process and thread from opening, closing or moving the database."""
        descriptor = self._open_lock()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def make_database(self) -> None:
        """Make an empty file, for this user only, unless there is one with content.

        Call under `exclusive`. An empty one is replaced: SQLite would take it for new and delete
        the WAL that others still use; once it is unlinked they see that it is gone.
        """
        with suppress(FileNotFoundError):
            if self.database.stat().st_size:
                return
        for path in (self.database, self.wal, self._shared_memory):
            path.unlink(missing_ok=True)
        self.database.touch(mode=0o600)

    def move_aside(self, stamp: int) -> None:
        """Rename the database and its companions to ``*.corrupt-<stamp>``.

        Call under `exclusive`. The database goes first: a process killed in between leaves
        companions without a database, which `make_database` unlinks, and never a database
        without the last of its transactions.
        """
        for path in (self.database, self.wal, self._shared_memory):
            with suppress(FileNotFoundError):
                path.rename(path.with_name(f"{path.name}.corrupt-{stamp}"))
        for path in (self.database, self.wal, self._shared_memory):
            for old in sorted(self.directory.glob(f"{path.name}.corrupt-*"))[:-KEPT_CORRUPT]:
                old.unlink(missing_ok=True)

    @property
    def _shared_memory(self) -> Path:
        return self.directory / f"{self.database.name}-shm"

    def _open_lock(self) -> int:
        return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
