"""What the writing thread does: a batch is one transaction, which also keeps the bounds."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from stepwell.core.clock import Clock
from stepwell.core.events import Event, Evicted
from stepwell.core.names import Tier
from stepwell.stores.disk import entries, log
from stepwell.stores.disk.database import Database
from stepwell.stores.disk.generation import Generation
from stepwell.stores.disk.jobs import Job
from stepwell.stores.disk.opening import transaction
from stepwell.stores.disk.schema import read_meta
from stepwell.stores.disk.transactions import Flushing, commit_together, excess_bytes, tidy

_EXPIRED_PER_WRITE = 64
_EVICTED_AT_ONCE = 64


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
        self._flushing = Flushing()

    def handle(self, jobs: Sequence[Job[Write]]) -> None:
        """Commit all ``jobs`` as one; one that brought a bad value does not spoil the others."""
        commit_together(jobs, self._commit, self._database.files.directory)

    def idle(self) -> None:
        """Give back what is free in the file and keep the write-ahead log short."""
        self._database.attend(partial(tidy, wal=self._database.files.wal))

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
        self._flushing.set(connection, on=any(job.durable for job in jobs))
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
        return excess_bytes(connection, read_meta(connection).size_bytes, self._max_bytes)
