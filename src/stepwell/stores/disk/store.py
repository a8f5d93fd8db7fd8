"""`DiskStore`: the Store and Feed ports on one SQLite file that worker processes share."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from stepwell.core.changes import Change
from stepwell.core.clock import Clock
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.errors import CorruptEntry, StoreError, StoreFull, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.core.judgement import Judgement
from stepwell.core.names import Arrival, CacheKey, Namespace, Position, Tier
from stepwell.core.ports import EventSink
from stepwell.stores.disk import entries, log
from stepwell.stores.disk.announced import Announced
from stepwell.stores.disk.database import Database
from stepwell.stores.disk.faults import as_store_error
from stepwell.stores.disk.files import Files
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.jobs import Bounds, Lane
from stepwell.stores.disk.reading import Reading
from stepwell.stores.disk.schema import TABLES
from stepwell.stores.disk.writing import Write, Writing

T = TypeVar("T")

SLOW_SECONDS = 30.0
"""Allowed for everything but reads: a large invalidation rewrites most of the file."""

TOUCH_SECONDS = 5.0
MAX_TOUCHED = 10_000
"""Uses are written back this often, for at most so many keys; those of further keys are lost."""

READ_BOUNDS = Bounds(
    jobs=256, size_bytes=2**20, batch_jobs=16, batch_bytes=2**20, overflow=StoreUnavailable
)
WRITE_BOUNDS = Bounds(
    jobs=1_024,
    size_bytes=64 * 2**20,
    batch_jobs=256,
    batch_bytes=8 * 2**20,
    overflow=StoreFull,
)


class DiskStore:
    """Entries, change feed and sources of one machine, in a directory of its own.

    Open it in the worker process that uses it, on the event loop that calls it. Two threads,
    one that reads and one that writes, do everything that can block. A put costs a share of a
    commit: what comes while one is going on, or within ``linger_seconds``, is the next one.

    A killed process loses nothing that was acknowledged; a power cut may lose the last entries,
    but no invalidation and no moved source.

    Expired entries leave first, then those of the least `worth`. Beside the bound on the sum of
    sizes, what the file holds stays under ``2 * max_bytes`` + 16 MiB after every transaction
    (one adds some 8 MiB at most), and its write-ahead log under 32 MiB after every pause.

    A damaged file is moved aside, where the newest two are kept and not counted, and started
    empty. Checksums cover answers, feed and sources, not the columns that selectors look at.
    """

    def __init__(  # noqa: PLR0913  (what `open` was given)
        self,
        files: Files,
        generation: Generation,
        *,
        max_bytes: int,
        clock: Clock,
        events: EventSink,
        timeout_seconds: float,
        poll_seconds: float,
        linger_seconds: float,
    ) -> None:
        """Take over opened files; use `open`."""
        self._generation = generation
        self._max_bytes = max_bytes
        self._events = events
        self._timeout_seconds = timeout_seconds
        self._position = Position(generation.current())
        self._one_reader = asyncio.Lock()
        self._touched: Counter[CacheKey] = Counter()
        self._touching: asyncio.Task[None] | None = None
        database = partial(Database, files, TABLES, clock, beside=Announced(generation))
        self._reads = Lane(
            "disk store reads",
            Reading(database(), generation),
            bounds=READ_BOUNDS,
            clock=clock,
            events=events,
            poll_seconds=poll_seconds,
        )
        self._writes = Lane(
            "disk store writes",
            Writing(database(), generation, clock, max_bytes=max_bytes),
            bounds=WRITE_BOUNDS,
            clock=clock,
            events=events,
            poll_seconds=poll_seconds,
            linger_seconds=linger_seconds,
        )

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        max_bytes: int,
        clock: Clock,
        events: EventSink,
        timeout_seconds: float = 0.25,
        poll_seconds: float = 1.0,
        linger_seconds: float = 0.0,
    ) -> Self:
        """Open the store in ``directory``, which is made, for this user only, if need be.

        Args:
            directory: On a local file system.
            max_bytes: Bound on the sum of `Entry.size_bytes`.
            clock: For expiry and the order of uses; it may jump.
            events: Gets `Evicted` and `Degraded`, on the calling loop.
            timeout_seconds: How long `get`, `read` and `source_values` may take.
            poll_seconds: How long changes of a writer that was killed between its commit and
                its announcement may stay unseen.
            linger_seconds: How long a `put` waits for others that share its commit.

        A file that cannot be opened because the disk is full is no reason not to begin: every call
        tries anew, and fails until there is space.

        Raises:
            StoreUnavailable: The directory cannot be used; says why and what to do.
            StoreFull: There is no space for a new store.
        """
        files = Files(directory)
        generation = await asyncio.to_thread(_open_generation, files)
        store = cls(
            files,
            generation,
            max_bytes=max_bytes,
            clock=clock,
            events=events,
            timeout_seconds=timeout_seconds,
            poll_seconds=poll_seconds,
            linger_seconds=linger_seconds,
        )
        try:
            store._position = await store._writes.call(_last_position, timeout_seconds=SLOW_SECONDS)
            await store._reads.call(log.last_position, timeout_seconds=SLOW_SECONDS)
        except StoreFull as error:
            store._degraded(error)
        except BaseException:
            await store.aclose()
            raise
        return store

    @property
    def tier(self) -> Tier:
        """As `Store.tier`."""
        return Tier.DISK

    async def get(self, key: CacheKey) -> Entry | None:
        """As `Store.get`; bounded by ``timeout_seconds``."""
        try:
            return await self._read(partial(entries.find, key=key))
        except CorruptEntry:
            try:
                await self._write(partial(_remove_if_corrupt, key=key))
            except StoreError as error:
                self._degraded(error)
            raise

    async def put(self, entry: Entry) -> bool:
        """As `Store.put`; also refuses an entry older than the 10,000 last invalidations.

        Raises:
            StoreFull: Larger than the whole store, too much waits to be written, or no space.
        """
        if entry.size_bytes > self._max_bytes:
            raise StoreFull(
                f"an entry of {entry.size_bytes} bytes; the disk store holds {self._max_bytes}"
            )
        return await self._writes.call(
            partial(_put, entry=entry),
            timeout_seconds=SLOW_SECONDS,
            # Tags are written three times: in the record, in their table and in its index.
            size_bytes=entry.size_bytes + 3 * sum(map(len, entry.tags)),
            patient=True,
        )

    async def arrived(self, after: Arrival, at_most: int) -> tuple[Sequence[Arrived], Arrival]:
        """As `Arrivals.arrived`; bounded by ``timeout_seconds``."""
        return await self._read(partial(entries.arrived, after=after, at_most=at_most))

    async def count(self, selector: Selector) -> int:
        """As `Store.count`. Among the writes: a long search then keeps no `get` waiting."""
        return await self._write(partial(_count, selector=selector))

    async def measure(self, selector: Selector) -> tuple[int, int]:
        """Return how many entries ``selector`` means, and their bytes as `Entry.size_bytes`."""
        meant = await self._write(partial(_measure, selector=selector))
        return meant.entries, meant.size_bytes

    async def invalidate(self, selector: Selector) -> int:
        """As `Store.invalidate`; flushed to disk.

        Raises:
            StoreUnavailable: It may still be done later, and can be asked for again.
        """
        return await self._write(partial(_invalidate, selector=selector), durable=True)

    async def revoke(self, selector: Selector) -> None:
        """As `invalidate`, which finds by indexes what is meant."""
        await self.invalidate(selector)

    def touch(self, uses: Mapping[CacheKey, int]) -> None:
        """Note how often (at least once) entries were used elsewhere, such as in memory.

        Buffered, and written back within seconds; unknown keys are ignored. Call on the loop.
        """
        for key, count in uses.items():
            if key in self._touched or len(self._touched) < MAX_TOUCHED:
                self._touched[key] += count
        if self._touched and self._touching is None:
            self._touching = asyncio.create_task(self._write_touches_later())

    def behind(self) -> bool:
        """As `Feed.behind`: reads 8 bytes of shared memory."""
        return self._generation.current() > self._position

    def position(self) -> Position:
        """As `Feed.position`; where the feed stood when the store was opened, at first."""
        return self._position

    async def read(self) -> Sequence[Change]:
        """As `Feed.read`. The feed goes back 10,000 changes; beyond that it says `Lost`."""
        async with self._one_reader:
            changes, self._position = await self._read(self._read_changes)
            return changes

    async def move_source(self, namespace: Namespace, name: str, value: str) -> bool:
        """As `Feed.move_source`; flushed to disk.

        Raises:
            StoreFull: The namespace has 10,000 sources already.
        """
        work = partial(_move_source, namespace=namespace, name=name, value=value)
        return await self._write(work, durable=True)

    async def source_values(self) -> dict[tuple[Namespace, str], str]:
        """As `Feed.source_values`."""
        return await self._read(log.source_values)

    async def judge(self, judgement: Judgement) -> None:
        """As `Judgements.judge`; flushed to disk."""
        await self._write(partial(_judge, judgement=judgement), durable=True)

    async def judgements(self) -> Sequence[Judgement]:
        """As `Judgements.judgements`. Among the writes: reading many keeps no `get` waiting."""
        return await self._write(_judgements)

    async def aclose(self) -> None:
        """As `Store.aclose`. What was touched is written back."""
        if self._touching is not None:
            self._touching.cancel()
        await self._write_touches()
        await self._writes.aclose(SLOW_SECONDS)
        await self._reads.aclose(SLOW_SECONDS)
        self._generation.close()

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._reads.call(work, timeout_seconds=self._timeout_seconds)

    async def _write(self, work: Callable[[Write], T], *, durable: bool = False) -> T:
        return await self._writes.call(work, timeout_seconds=SLOW_SECONDS, durable=durable)

    def _read_changes(self, connection: sqlite3.Connection) -> tuple[Sequence[Change], Position]:
        changes, last = log.read_after(connection, self._position)
        # Its writer may have died before it could; nobody may stand above the generation.
        if last > self._generation.current():
            self._generation.raise_to(last)
        return changes, last

    async def _write_touches_later(self) -> None:
        while self._touched:
            await asyncio.sleep(TOUCH_SECONDS)
            await self._write_touches()
        self._touching = None

    async def _write_touches(self) -> None:
        touched, self._touched = self._touched, Counter()
        if touched:
            try:
                await self._write(partial(_note_uses, uses=touched))
            except StoreError as error:
                self._degraded(error)

    def _degraded(self, error: StoreError) -> None:
        self._events.emit(Degraded("store.disk", str(error)))


def _open_generation(files: Files) -> Generation:
    files.make_directory()
    try:
        return Generation(files.generation)
    except OSError as error:
        raise as_store_error(error, files.directory) from error


def _last_position(write: Write) -> Position:
    return log.last_position(write.connection)


def _put(write: Write, entry: Entry) -> bool:
    if log.is_outrun(write.connection, entry):
        return False
    write.left("replaced", entries.store(write.connection, entry, write.used_at))
    return True


def _remove_if_corrupt(write: Write, key: CacheKey) -> None:
    write.left("corrupt", entries.remove_if_corrupt(write.connection, key))


def _count(write: Write, selector: Selector) -> int:
    return entries.measure(write.connection, selector).entries


def _measure(write: Write, selector: Selector) -> entries.Gone:
    return entries.measure(write.connection, selector)


def _invalidate(write: Write, selector: Selector) -> int:
    gone = entries.remove(write.connection, selector)
    log.append_invalidated(write.connection, selector)
    write.left("invalidated", gone)
    return gone.entries


def _note_uses(write: Write, uses: Mapping[CacheKey, int]) -> None:
    entries.note_uses(write.connection, uses, write.used_at)


def _judge(write: Write, judgement: Judgement) -> None:
    log.judge(write.connection, judgement)


def _judgements(write: Write) -> Sequence[Judgement]:
    return log.judgements(write.connection)


def _move_source(write: Write, namespace: Namespace, name: str, value: str) -> bool:
    return log.move_source(write.connection, namespace, name, value)
