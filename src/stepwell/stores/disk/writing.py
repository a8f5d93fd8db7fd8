"""What the writing thread does: a batch is one transaction, which also keeps the bounds."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepwell.core.clock import Clock
from stepwell.core.events import Event, Evicted
from stepwell.core.names import Tier
from stepwell.stores.disk import entries, log
from stepwell.stores.disk.database import Database
from stepwell.stores.disk.faults import as_store_error, concerns_one_call
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.jobs import Job
from stepwell.stores.disk.opening import PAGE_BYTES, transaction
from stepwell.stores.disk.schema import read_meta

FILE_FACTOR = 2
FILE_ALLOWANCE_BYTES = 16 * 2**20
"""Pages in use stay under ``FILE_FACTOR * max_bytes + FILE_ALLOWANCE_BYTES``: the factor is for
page rounding, tags and indexes, the allowance for the feed, sources and an empty file."""

MAX_WAL_BYTES = 32 * 2**20
"""A write-ahead log longer than this is folded into the file as soon as there is a pause."""

_EXPIRED_PER_WRITE = 64
_EVICTED_AT_ONCE = 64
_VACUUMED_AT_ONCE = 1_024


@dataclass(slots=True)
class Write:
    """A transaction that is going on, as its jobs see it."""

    connection: sqlite3.Connection
    now: float
    used_at: float
    """``now``, unless the clock was turned back: uses are in the order in which they came."""
    events: list[Event] = field(default_factory=list)
    """Told if it commits."""

    def left(self, reason: str, gone: entries.Gone | None) -> None:
        """Note that entries left the disk tier."""
        if gone is not None and gone.entries:
            self.events.append(Evicted(Tier.DISK, reason, gone.entries, gone.size_bytes))


class Writing:
    """Handler of the writing thread; its jobs change the file through a `Write`."""

    def __init__(
        self, database: Database, generation: Generation, clock: Clock, *, max_bytes: int
    ) -> None:
        self._database = database
        self._generation = generation
        self._clock = clock
        self._max_bytes = max_bytes
        self._flushing: sqlite3.Connection | None = None
        """The connection that flushes, if one does."""

    def handle(self, jobs: Sequence[Job[Write]]) -> None:
        """Commit all ``jobs`` as one; one that brought a bad value does not spoil the others."""
        try:
            self._commit(jobs)
        except Exception as error:  # noqa: BLE001  (the port promises StoreError alone)
            if len(jobs) > 1 and concerns_one_call(error):
                for job in jobs:
                    self.handle([job])
            else:
                for job in jobs:
                    job.error = as_store_error(error, self._database.files.directory)

    def idle(self) -> None:
        """Give back what is free in the file and keep the write-ahead log short."""
        self._database.attend(self._tidy)

    def take_events(self) -> Sequence[Event]:
        """Return what happened since the last call."""
        return self._database.take_events()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _commit(self, jobs: Sequence[Job[Write]]) -> None:
        def attempt(connection: sqlite3.Connection) -> list[Event]:
            return self._attempt(connection, jobs)

        events = self._database.run(attempt)
        # Another process may have moved the file aside under the transaction. If it does so
        # from here on, its successor starts above the position that was just announced.
        while not self._database.is_current():
            events = self._database.run(attempt)
        self._database.tell(events)

    def _attempt(self, connection: sqlite3.Connection, jobs: Sequence[Job[Write]]) -> list[Event]:
        self._set_flushing(connection, any(job.durable for job in jobs))
        with transaction(connection, write=True):
            now = self._clock.now()
            write = Write(connection, now, used_at=entries.advance(connection, now))
            for job in jobs:
                job.result = job.work(write)
            self._make_room(write)
            position = log.last_position(connection)
        if position > self._generation.current():
            self._generation.raise_to(position)
        return write.events

    def _set_flushing(self, connection: sqlite3.Connection, on: bool) -> None:  # noqa: FBT001
        """Choose whether a commit is flushed before it counts.

        With, what was invalidated does not come back after a power cut. Without, as at opening, a
        commit survives a killed process.
        """
        if on != (self._flushing is connection):
            connection.execute(f"PRAGMA synchronous = {'FULL' if on else 'NORMAL'}")
            self._flushing = connection if on else None

    def _make_room(self, write: Write) -> None:
        connection = write.connection
        expired = entries.remove_expired(connection, write.now, _EXPIRED_PER_WRITE)
        write.left("expired", expired)
        while excess_bytes := self._excess_bytes(connection):
            gone = entries.remove_expired(connection, write.now, _EVICTED_AT_ONCE)
            write.left("expired", gone)
            if not gone.entries:
                gone = entries.remove_least_worth(connection, excess_bytes, _EVICTED_AT_ONCE)
                write.left("capacity", gone)
            if not gone.entries:
                # Empty, yet over the bound: the sum was damaged, or the feed takes the room.
                connection.execute("UPDATE meta SET size_bytes = 0")
                break

    def _excess_bytes(self, connection: sqlite3.Connection) -> int:
        pages_in_use = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
        file_bound = FILE_FACTOR * self._max_bytes + FILE_ALLOWANCE_BYTES
        return max(
            read_meta(connection).size_bytes - self._max_bytes,
            pages_in_use * PAGE_BYTES - file_bound,
            0,
        )

    def _tidy(self, connection: sqlite3.Connection) -> None:
        free_pages = _pragma(connection, "freelist_count")
        too_many = free_pages > _pragma(connection, "page_count") // 8
        if too_many:
            # A script, because `execute` takes one step of this statement, which is one page.
            connection.executescript(f"PRAGMA incremental_vacuum({_VACUUMED_AT_ONCE})")
        wal = self._database.files.wal
        if too_many or (wal.exists() and wal.stat().st_size > MAX_WAL_BYTES):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
