"""KV blocks as files: the shelf that outlives a process, and that several of them share."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from stepwell.core.clock import Clock, SystemClock
from stepwell.core.kv import BlockId
from stepwell.stores.kv.account import Account, Busy
from stepwell.stores.kv.counts import Counting, Counts, ReadOutcome, WriteOutcome
from stepwell.stores.kv.folder import Folder
from stepwell.stores.kv.format import (
    BlockHeader,
    Damaged,
    StoredBlock,
    header_bytes,
    header_length,
    parse,
    parse_header,
    trailer_bytes,
)
from stepwell.stores.kv.room import Room, TooLarge

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_MINUTE_NS = 60 * 10**9
_LAST_NS_OF_MINUTE = _MINUTE_NS - 1
_NS_PER_TOKEN = 1000

_FIRST_READ_BYTES = 4096
"""Holds the header of a block of several hundred tokens."""

_OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class BlockFiles:
    """Keeps each KV block as one checked file, within a bound, least recently used ones leaving.

    Nothing here raises because of the disk: a file that is torn, decayed or cannot be read is a
    miss, one that cannot be written is refused, and both are counted. Several processes may use one
    folder, also over NFS: files appear under their name at once and whole, and two writers of the
    same block do not disturb each other. Where file locks do not reach all machines, the bound may
    be exceeded for a while.

    All calls block for as long as the disk takes; all are safe for many threads.

    A file's time of change tells when it was last used, to the minute. Within the minute deeper
    blocks count as older, so that a prefix leaves from its end and no block is left that none can
    reach.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        is_flushed: bool = False,
        lock_timeout_seconds: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        """Make the folder if it is not there.

        Args:
            folder: May hold other things; they are left alone. Only its owner can read what is
                written, for the files tell what was asked. Whoever can write to it is trusted.
            max_bytes: Of all files together, also while they are written.
            is_flushed: Whether a block must reach the disk before it counts as written. Without
                it, those of the last seconds may be found damaged, and be missed, after a power
                cut.
            lock_timeout_seconds: How long a write waits for other processes that make room.
            clock: The machine's unless given.

        Raises:
            StoreUnavailable: The folder cannot be made or written to.
        """
        self._clock = clock or SystemClock()
        self._counting = Counting()
        self._folder = Folder(folder)
        self._folder.make()
        self._room = Room(
            self._folder,
            Account(self._folder.account, timeout_seconds=lock_timeout_seconds),
            max_bytes=max_bytes,
            clock=self._clock,
            on_eviction=self._counting.evicted,
        )
        self._max_bytes = max_bytes
        self._is_flushed = is_flushed

    def read(self, scope_digest: bytes, block: BlockId) -> StoredBlock | None:
        """Return a block, or ``None`` if it is not there, damaged or cannot be read.

        What comes back is what was written under this id, to the byte; its payload is memory of
        its own. Compare its tokens with those you look for. A damaged file is removed.

        Reads the whole file and does not map it: that would save a fifth of the time, and kill the
        process if the file were cut short meanwhile.
        """
        path = self._folder.path(scope_digest, block)
        try:
            stored = self._read(path)
            if (stored.header.scope_digest, stored.header.id) != (scope_digest, block):
                raise Damaged("another block under this name")  # noqa: TRY301
        except FileNotFoundError:
            self._counting.read(ReadOutcome.ABSENT)
        except Damaged as error:
            self._remove(path, error)
        except OSError as error:
            self._counting.read(ReadOutcome.FAILED, error=error)
        else:
            self._counting.read(ReadOutcome.HIT, len(stored.payload))
            return stored
        return None

    def write(self, block: StoredBlock) -> WriteOutcome:
        """Write a block unless it is there.

        Others see all of it or nothing. Costs the bytes, and what `Room.reserve` says.
        """
        path = self._folder.path(block.header.scope_digest, block.header.id)
        if self._note_use(path):
            self._counting.written(WriteOutcome.PRESENT)
            return WriteOutcome.PRESENT
        try:
            self._write(block, path)
        except (TooLarge, Busy, ValueError, OSError) as error:
            outcome = _outcome_of(error)
            self._counting.written(outcome, error=error)
            return outcome
        self._counting.written(WriteOutcome.WRITTEN, len(block.payload))
        return WriteOutcome.WRITTEN

    def discard(self, scope_digest: bytes, block: BlockId) -> None:
        """Remove a block that turned out to be of no use; nothing if that cannot be done."""
        self._room.remove(self._folder.path(scope_digest, block))

    def note_use(self, scope_digest: bytes, block: BlockId) -> bool:
        """Return whether there is a file for a block, and keep it from leaving soon.

        Looks at nothing inside it: it may still turn out to be damaged. Costs 3 us.

        Whoever keeps copies in memory calls this now and then for what is used from there; else the
        beginning of a prefix, which memory always has, would leave before its end.
        """
        return self._note_use(self._folder.path(scope_digest, block))

    def headers(self, scope_digest: bytes) -> Iterator[BlockHeader]:
        """Yield the headers of a scope's blocks, in no order, such as to build an index anew.

        Reads the headers only: 40 us for each file. So what is listed may still turn out to be
        damaged, or be gone. Headers that are damaged are left out, and their files removed.
        """
        for path in self._folder.blocks(scope_digest):
            try:
                header = _read_header(path)
                if self._folder.path(header.scope_digest, header.id) != path:
                    raise Damaged("another block under this name")  # noqa: TRY301
            except Damaged as error:
                self._remove(path, error)
            except FileNotFoundError:
                self._counting.read(ReadOutcome.ABSENT)
            except OSError as error:
                self._counting.read(ReadOutcome.FAILED, error=error)
            else:
                yield header

    def counts(self) -> Counts:
        """Return what became of reads and writes so far."""
        return self._counting.snapshot()

    def take_last_error(self) -> str:
        """Return what went wrong last, for a person to read; empty if nothing has since."""
        return self._counting.take_last_error()

    def _read(self, path: str) -> StoredBlock:
        descriptor, status = _open(path)
        try:
            if status.st_size > self._max_bytes:
                raise Damaged("longer than all files together may be")
            content = bytearray(status.st_size)
            _fill(descriptor, content)
            stored = parse(content)
            self._touch(descriptor, status.st_mtime_ns)
            return stored
        finally:
            os.close(descriptor)

    def _write(self, block: StoredBlock, path: str) -> None:
        header = header_bytes(block.header, len(block.payload))
        trailer = trailer_bytes(header, block.payload)
        aside = self._folder.aside(block.header.id)
        size_bytes = len(header) + len(block.payload) + len(trailer)
        descriptor = self._room.reserve(aside, size_bytes)
        try:
            try:
                _write_all(descriptor, (header, block.payload, trailer))
                if self._is_flushed:
                    os.fsync(descriptor)
                depth_ns = min(block.header.position * _NS_PER_TOKEN, _LAST_NS_OF_MINUTE)
                used_ns = self._minute_ns() + _LAST_NS_OF_MINUTE - depth_ns
                os.utime(descriptor, ns=(used_ns, used_ns))
            finally:
                os.close(descriptor)
            self._folder.publish(aside, path)
        except BaseException:
            self._room.remove(aside)
            raise

    def _remove(self, path: str, error: Damaged) -> None:
        self._counting.read(ReadOutcome.DAMAGED, error=error)
        self._room.remove(path)

    def _note_use(self, path: str) -> bool:
        try:
            status = os.lstat(path)
        except OSError:
            return False
        self._touch(path, status.st_mtime_ns)
        return stat.S_ISREG(status.st_mode)

    def _touch(self, file: str | int, mtime_ns: int) -> None:
        """Set the minute of a file's time of change; what it says within a minute stays."""
        used_ns = self._minute_ns() + mtime_ns % _MINUTE_NS
        if used_ns != mtime_ns:
            with suppress(OSError):
                os.utime(file, ns=(used_ns, used_ns))

    def _minute_ns(self) -> int:
        return int(self._clock.now()) // 60 * _MINUTE_NS


def _outcome_of(error: Exception) -> WriteOutcome:
    match error:
        case TooLarge() | ValueError():
            return WriteOutcome.TOO_LARGE
        case Busy():
            return WriteOutcome.BUSY
        case OSError(errno=number) if number in _NO_SPACE:
            return WriteOutcome.NO_SPACE
    return WriteOutcome.FAILED


def _open(path: str) -> tuple[int, os.stat_result]:
    """Open a file for reading. Raises `OSError`, also for what is not a regular file."""
    descriptor = os.open(path, _OPEN_FLAGS)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor, status


def _fill(descriptor: int, content: bytearray) -> None:
    """Read from the file's beginning until ``content`` is full. Raises `OSError`, `Damaged`."""
    view = memoryview(content)
    done = 0
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], done)
        if not count:
            raise Damaged("a file that was cut short")
        done += count


def _write_all(descriptor: int, parts: Iterable[bytes | memoryview]) -> None:
    for part in parts:
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _read_header(path: str) -> BlockHeader:
    """Raises `OSError`, `Damaged`."""
    descriptor, status = _open(path)
    try:
        beginning = bytearray(min(status.st_size, _FIRST_READ_BYTES))
        _fill(descriptor, beginning)
        length = header_length(beginning)
        if length > status.st_size:
            raise Damaged("shorter than its header")
        if length > len(beginning):
            beginning = bytearray(length)
            _fill(descriptor, beginning)
        return parse_header(beginning)[0]
    finally:
        os.close(descriptor)
