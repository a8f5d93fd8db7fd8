"""Reading the blocks of a lease, and bringing up what stood on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import Generic, TypeVar

from stepwell.core.clock import Clock
from stepwell.core.kv import TOKEN_BYTES, block_id
from stepwell.prefix.leases import Lease
from stepwell.prefix.rate import Rate
from stepwell.prefix.record import Record, Root
from stepwell.prefix.room import Memory
from stepwell.prefix.shelves import BlockName, DiskShelf, Level
from stepwell.prefix.stock import Stock
from stepwell.prefix.writer import Writer

Block = TypeVar("Block")


@dataclass(frozen=True, slots=True)
class _Copy:
    record: Record
    level: Level
    memory: object


class Loader(Generic[Block]):
    """Reads without the lock, measures how long that takes, and drops what cannot be read."""

    __slots__ = ("_clock", "_disk", "_lock", "_memory", "_rates", "_stock", "_writer")

    def __init__(
        self,
        memory: Memory[Block],
        disk: DiskShelf[Block] | None,
        writer: Writer[Block] | None,
        stock: Stock,
        rates: Sequence[Rate],
        lock: Lock,
        clock: Clock,
    ) -> None:
        self._memory = memory
        self._disk = disk
        self._writer = writer
        self._stock = stock
        self._rates = rates
        self._lock = lock
        self._clock = clock

    def load(self, lease: Lease[Block]) -> list[Block]:
        """Return the blocks of a lease, as many as can be read from the first on."""
        root = lease.root
        with self._lock:
            copies = [
                _Copy(record, record.level, record.memory)
                for record in lease.records
                if record.level is not None
            ]
        if root is None or not copies:
            return []
        blocks: list[Block] = []
        for level, group in groupby(copies, lambda copy: copy.level):
            wanted = list(group)
            read = self._read(root, lease.tokens, level, wanted, start=len(blocks))
            blocks += read
            if len(read) < len(wanted):
                self._truncate(lease, wanted[len(read)], len(blocks))
                break
        return blocks

    def _read(
        self, root: Root, tokens: bytes, level: Level, copies: Sequence[_Copy], *, start: int
    ) -> list[Block]:
        began = self._clock.monotonic()
        if level is Level.DISK:
            blocks = self._read_disk(root, tokens, copies, start)
        else:
            blocks = self._read_memory(level, copies)
        took = self._clock.monotonic() - began
        with self._lock:
            self._count(root, level, copies[: len(blocks)], took)
        if level is Level.DISK:
            self._bring_up(root, copies, blocks)
        return blocks

    def _read_memory(self, level: Level, copies: Sequence[_Copy]) -> list[Block]:
        blocks: list[Block] = []
        try:
            for copy in copies:
                blocks.append(self._memory.unpack(level, copy.memory))  # noqa: PERF401  (those before a fault count)
        except Exception:  # noqa: BLE001  (a form's fault is a damaged block, which is counted)
            return blocks
        return blocks

    def _read_disk(
        self, root: Root, tokens: bytes, copies: Sequence[_Copy], start: int
    ) -> list[Block]:
        blocks: list[Block] = []
        if self._disk is None:
            return blocks
        step = root.tree.block_tokens * TOKEN_BYTES
        before = copies[0].record.parent
        previous = root.digest if before is None or before.id is None else before.id
        for number in range(start, start + len(copies)):
            own = tokens[number * step : (number + 1) * step]
            name = BlockName(root.digest, block_id(previous, own), previous, own)
            previous = name.id
            block = self._read_one(self._disk, name)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def _read_one(self, disk: DiskShelf[Block], name: BlockName) -> Block | None:
        try:
            return disk.store.read(name)
        except Exception:  # noqa: BLE001  (a store's fault is a miss, which is counted)
            return None

    def _count(self, root: Root, level: Level, copies: Sequence[_Copy], took: float) -> None:
        counts = self._stock.counts
        self._stock.budgets[level].hit_tokens += len(copies) * root.tree.block_tokens
        lately = root.seconds_per_token * root.tree.block_tokens
        computing = sum(copy.record.seconds or lately for copy in copies)
        if computing:
            counts.saved_seconds += computing - took
        self._rates[level].note(
            took, len(copies) * root.block_bytes[level], self._clock.monotonic()
        )

    def _bring_up(self, root: Root, copies: Sequence[_Copy], blocks: list[Block]) -> None:
        """Put what was read from disk up in memory, too, behind what is there."""
        before = copies[0].record.parent
        level = Level.EXACT if before is None or before.level is None else before.level
        if level is Level.DISK or not blocks:
            return
        granted = self._memory.make_room(level, root, len(blocks))
        packed = self._pack(level, blocks[:granted])
        with self._lock:
            start = next(
                (at for at, copy in enumerate(copies) if copy.record.level is not level), 0
            )
            rest = [copy.record for copy in copies[start : len(packed)]]
            if not _may_stand(rest, level):
                rest = []
            self._stock.stand(rest, level, packed[start : start + len(rest)])
            self._stock.give_back(level, root, granted - len(rest))

    def _pack(self, level: Level, blocks: Sequence[Block]) -> list[object]:
        """Return blocks as they stand on a shelf; none if that cannot be made."""
        form = self._memory.form(level)
        try:
            return [form.pack(block) for block in blocks]
        except Exception:  # noqa: BLE001  (they were read; they only do not come up)
            return []

    def _truncate(self, lease: Lease[Block], copy: _Copy, blocks: int) -> None:
        """Drop what could not be read, and from the lease what stands behind it."""
        with self._lock:
            self._stock.counts.lost_blocks += 1
            self._stock.lose(copy.record, copy.level)
            # Another reader may have found others of them damaged.
            there = [record for record in lease.records[:blocks] if record.level is not None]
            lease.records = there
            held, lease.held = lease.held, self._stock.hold(lease.records)
            self._stock.let_go(held)
            if self._writer is not None:
                self._writer.wake()


def _may_stand(records: Sequence[Record], level: Level) -> bool:
    """Return whether consecutive blocks may be put up in memory, as things are now.

    Meanwhile, another thread may have done so, or lost them to damage.
    """
    if not records or any(record.level is not Level.DISK for record in records):
        return False
    before = records[0].parent
    return before is None or before.level is level
