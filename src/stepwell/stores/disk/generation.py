"""One number that every process of a store sees at once: the last committed change."""

import fcntl
import mmap
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from stepwell.stores.disk.files import identity

_BYTES = 8
_DAMAGED_ABOVE = 1 << 62


class Generation:
    """An 8-byte file, mapped by every process: the last position that readers must know of.

    The rules, and what they buy:

    - It is raised *after* the commit that appended the changes. Whoever sees the number finds
      the changes in the table.
    - It only grows, under `flock`, to the larger of itself and the position. Two writers that
      commit 5 and 6 and arrive here in the other order leave 6.
    - Nobody holds a position above it: who reads changes that it does not count yet raises it
      first. So the successor of a lost database can start above every reader.
    - A process that dies between commit and raise leaves it too low. Every other process's
      poll, the next commit and the next opening raise it to what the table holds.
    - It is not flushed: after a power cut, the larger of file and table wins.

    It is read through the mapping, in the machine's byte order (it never leaves the machine),
    and written by `pwrite`: a store through a mapping kills the process when the file system
    has no space for it. A reader may see half of a write; it is then behind for one empty
    `read`, or learns of the change when the write is whole, which is before the writer returns.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, made if need be. Raises `OSError`."""
        self._path = path
        self._guard = threading.Lock()
        self._closed = False
        self._cells: Sequence[int] = (0,)
        self._open(at_least=0)

    def current(self) -> int:
        """Return the number; from any thread. After `close` it stays as it was."""
        return self._cells[0]

    def raise_to(self, position: int) -> None:
        """Make it at least ``position``. Raises `OSError`."""
        with self._guard:
            if not self._closed:
                _raise(self._descriptor, position)

    def follow(self) -> None:
        """Map the file that has the name now, if somebody removed ours. Raises `OSError`.

        The number grows by one, since what others changed meanwhile is not known.
        """
        with self._guard:
            if self._closed or identity(self._path) == self._identity:
                return
            before = self._cells[0]
            os.close(self._descriptor)
            self._open(at_least=before and before + 1)

    def close(self) -> None:
        """Release the file. May be called twice."""
        with self._guard:
            if not self._closed:
                self._closed = True
                # Not unmapped by hand: another thread may be reading. The last reference does it.
                self._cells = (self._cells[0],)
                os.close(self._descriptor)

    def _open(self, *, at_least: int) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _raise(self._descriptor, at_least)
            mapped = mmap.mmap(self._descriptor, _BYTES, access=mmap.ACCESS_READ)
        except BaseException:
            self._closed = True
            os.close(self._descriptor)
            raise
        status = os.fstat(self._descriptor)
        self._identity = status.st_dev, status.st_ino
        self._cells = cast("Sequence[int]", memoryview(mapped).cast("Q"))


def _raise(descriptor: int, position: int) -> None:
    with _locked(descriptor):
        written = os.pread(descriptor, _BYTES, 0)
        current = int.from_bytes(written, sys.byteorder)
        if len(written) < _BYTES or current > _DAMAGED_ABOVE:
            current = 0
        elif position <= current:
            return
        os.pwrite(descriptor, max(position, current).to_bytes(_BYTES, sys.byteorder), 0)


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
