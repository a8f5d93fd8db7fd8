"""How many bytes the files of a folder have, known to all processes that share it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE_SECONDS = 0.002
_NUMBER_BYTES = 8


class Busy(Exception):
    """Another process holds the account for too long."""


class Account:
    """A number in a file, which one process at a time may look at and change.

    The lock is the file's (``flock``), so a process that is killed lets go of it. Blocking; safe
    for many threads.
    """

    def __init__(self, path: Path, *, timeout_seconds: float) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds

    @contextmanager
    def held(self) -> Iterator["Held"]:
        """Keep every other thread and process out. Not reentrant.

        Raises:
            Busy: Somebody else did not let go in time.
            OSError: The file cannot be opened or locked.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock(descriptor)
            yield Held(descriptor)
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Busy(f"another process keeps {self._path} locked") from None
                time.sleep(_PAUSE_SECONDS)
            else:
                return


class Held:
    """The account while it is ours."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def total(self) -> int | None:
        """Return what is noted down; ``None`` if nothing is that makes sense."""
        noted = os.pread(self._descriptor, _NUMBER_BYTES + 1, 0)
        return int.from_bytes(noted, "little") if len(noted) == _NUMBER_BYTES else None

    def note(self, total: int) -> None:
        """Note down how many bytes there are now."""
        os.pwrite(self._descriptor, max(total, 0).to_bytes(_NUMBER_BYTES, "little"), 0)
