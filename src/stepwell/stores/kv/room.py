"""Room for files under a bound that several processes share: who needs some makes others leave."""

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from heapq import nsmallest

from stepwell.core.clock import Clock
from stepwell.stores.kv.account import Account, Busy, Held
from stepwell.stores.kv.folder import ABANDONED_SECONDS, Folder, FoundFile

_NEXT_TO_LEAVE = 4096
"""How many files one look through the folder finds to leave, at most."""

_MAX_LOOKS = 3


class TooLarge(Exception):
    """A single file does not fit under the bound."""


class Room:
    """Bytes of a folder, never more than allowed: an empty file of full length reserves them.

    Other processes count that file as it is, and it is removed like any other if its writer is
    killed. Blocking; safe for many threads, which wait for each other in `reserve`.
    """

    def __init__(
        self,
        folder: Folder,
        account: Account,
        *,
        max_bytes: int,
        clock: Clock,
        on_eviction: Callable[[int], None],
    ) -> None:
        """Look at nothing yet.

        Args:
            folder: Whose files they are.
            account: What all processes know of their bytes.
            max_bytes: How many there may be. Processes that share a folder should agree.
            clock: Tells which files are left over.
            on_eviction: Called with the length of each file that was made to leave.
        """
        self._folder = folder
        self._account = account
        self._max_bytes = max_bytes
        self._clock = clock
        self._on_eviction = on_eviction
        # Both only used while the account is held.
        self._leaving: deque[FoundFile] = deque()
        self._is_known = False

    def reserve(self, aside: str, size_bytes: int) -> int:
        """Make the file ``aside`` with ``size_bytes`` zeros; return a descriptor to write to.

        Costs some 50 us. When the folder is full, also the removal of files, and once for
        thousands of them a look through the folder (a second for 100,000 files).

        Raises:
            TooLarge: It can never fit.
            Busy: Other processes hold the account, or all there is.
            OSError: Such as for a full disk.
        """
        if size_bytes > self._max_bytes:
            raise TooLarge(f"{size_bytes} bytes do not fit into {self._max_bytes}")
        with self._account.held() as held:
            total = self._with_room(held, size_bytes)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(aside, flags, 0o600)
            try:
                os.ftruncate(descriptor, size_bytes)
                held.note(total + size_bytes)
            except OSError:
                os.close(descriptor)
                os.unlink(aside)  # noqa: PTH108
                raise
        return descriptor

    def remove(self, path: str) -> None:
        """Unlink a file of ours and give its bytes back; nothing if that cannot be done."""
        with suppress(OSError, Busy), self._account.held() as held:
            size_bytes = os.lstat(path).st_size
            os.unlink(path)  # noqa: PTH108
            total = held.total()
            if total is not None:
                held.note(total - size_bytes)

    def _with_room(self, held: Held, size_bytes: int) -> int:
        """Return how many bytes there are once ``size_bytes`` more would fit."""
        noted = held.total()
        # What others have done to the folder before this process came is not in the account.
        total = noted if noted is not None and self._is_known else self._look()
        self._is_known = True
        looks = 0
        while total + size_bytes > self._max_bytes:
            if not self._leaving:
                looks += 1
                if looks > _MAX_LOOKS:
                    raise Busy("all room is taken by files that are being written or read")
                total = self._look()
            else:
                total -= self._evict(self._leaving.popleft())
        return total

    def _look(self) -> int:
        """Return how many bytes there are, and remember which files are to leave first."""
        total = 0
        abandoned_ns = int((self._clock.now() - ABANDONED_SECONDS) * 1e9)
        for aside in self._folder.asides():
            if aside.mtime_ns < abandoned_ns:
                with suppress(FileNotFoundError):
                    os.unlink(aside.path)  # noqa: PTH108
            else:
                total += aside.size_bytes

        files = list(self._folder.files(abandoned_ns))
        self._leaving = deque(nsmallest(_NEXT_TO_LEAVE, files))
        return total + sum(file.size_bytes for file in files)

    def _evict(self, file: FoundFile) -> int:
        """Unlink a file unless it has been used since it was seen; return its bytes."""
        with suppress(FileNotFoundError):
            status = os.stat(file.path, follow_symlinks=False)  # noqa: PTH116  (as it was found)
            if status.st_mtime_ns != file.mtime_ns:
                return 0
            os.unlink(file.path)  # noqa: PTH108
            self._on_eviction(file.size_bytes)
            return file.size_bytes
        return 0
