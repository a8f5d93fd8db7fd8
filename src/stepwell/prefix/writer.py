"""Puts blocks on disk behind everybody's back, in order, from a thread of its own."""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Lock, Thread
from typing import Generic, TypeVar

from stepwell.prefix.record import Record
from stepwell.prefix.shelves import BlockName, DiskShelf, Form, Level
from stepwell.prefix.stock import Stock

Block = TypeVar("Block")


@dataclass(frozen=True, slots=True)
class _Write:
    record: Record
    name: BlockName
    memory: object


class Writer(Generic[Block]):
    """Writes blocks soon after they are kept, so that what leaves memory is simply dropped.

    A block is written only behind one that is on disk and only while it is exact. What finds the
    queue full is offered again when its prefix is kept the next time. Files are removed here, too,
    before the one is written that needs their room: the disk's bound holds at every moment.
    """

    def __init__(
        self, shelf: DiskShelf[Block], form: Form[Block], stock: Stock, lock: Lock
    ) -> None:
        """Start the thread.

        Args:
            shelf: Where to.
            form: Of the exact shelf, where blocks come from.
            stock: What stands where.
            lock: The cache's, held by whoever calls `offer` and `wake`.
        """
        self._shelf = shelf
        self._form = form
        self._store = shelf.store
        self._stock = stock
        self._changed = Condition(lock)
        self._queue: deque[Record] = deque()
        self._busy = False
        self._closing = False
        self._thread = Thread(target=self._run, name="stepwell-kv-writer", daemon=True)
        self._thread.start()

    def offer(self, records: Iterable[Record]) -> None:
        """Queue the blocks of one prefix that are not on disk, in order. Under the cache's lock."""
        if self._closing:
            return
        waiting = [record for record in records if not record.on_disk]
        room = self._shelf.queue_blocks - len(self._queue)
        if len(waiting) > room:
            self._stock.counts.refused["queue"] += len(waiting) - room
        self._queue.extend(waiting[:room])
        self.wake()

    def wake(self) -> None:
        """Have files removed that are not wanted any more. Under the cache's lock."""
        self._changed.notify_all()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was offered is on disk or refused; return whether it is."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, timeout_seconds)

    def close(self, timeout_seconds: float) -> None:
        """Write what waits, for as long as that, and end the thread."""
        self.flush(timeout_seconds)
        with self._changed:
            self._closing = True
            self._queue.clear()
            self._changed.notify_all()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(self._has_work)
                if self._closing:
                    return
                self._busy = True
                write = self._next()
                unwanted = self._stock.take_unwanted()
            for name in unwanted:
                self._remove(name)
            if write is not None:
                self._settle(write, self._write(write))

    def _has_work(self) -> bool:
        return self._closing or bool(self._queue) or self._stock.has_unwanted

    def _is_idle(self) -> bool:
        return not (self._busy or self._queue or self._stock.has_unwanted)

    def _next(self) -> _Write | None:
        """Take the next block that can be written, and room for it."""
        while self._queue:
            record = self._queue.popleft()
            if record.level is not Level.EXACT or record.on_disk:
                continue
            behind_disk = record.parent is None or record.parent.on_disk
            if not behind_disk or not self._stock.reserve(Level.DISK, record.root, 1):
                self._stock.counts.refused["unwritten"] += 1
                continue
            record.holds += 1
            return _Write(record, self._stock.name_of(record), record.memory)
        return None

    def _write(self, write: _Write) -> bool:
        try:
            return self._store.write(write.name, self._form.unpack(write.memory))
        except Exception:  # noqa: BLE001  (a store's fault costs time, never an answer; it is counted)
            return False

    def _remove(self, name: BlockName) -> None:
        # What cannot be removed is found again, or not, when the store is listed.
        with suppress(Exception):
            self._store.remove(name)

    def _settle(self, write: _Write, written: bool) -> None:  # noqa: FBT001  (what `_write` returned)
        record = write.record
        with self._changed:
            parent = record.parent
            if written and record.level is not None and (parent is None or parent.on_disk):
                self._stock.stand_on_disk([record])
            else:
                self._stock.give_back(Level.DISK, record.root, 1)
                if written:
                    self._stock.discard(write.name)
                else:
                    self._stock.counts.refused["unwritten"] += 1
            self._stock.let_go([record])
