"""What a thread does for a file without a feed: its jobs are transactions.

Also the parts of it that a file with a feed shares: `commit_together`, `Flushing`, `tidy`.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from stepwell.core.events import Event
from stepwell.stores.disk.database import Database
from stepwell.stores.disk.faults import as_store_error, concerns_one_call
from stepwell.stores.disk.jobs import Job
from stepwell.stores.disk.opening import PAGE_BYTES, transaction

C = TypeVar("C")

MAX_WAL_BYTES = 32 * 2**20
"""A write-ahead log longer than this is folded into the file as soon as there is a pause."""

FILE_FACTOR = 2
FILE_ALLOWANCE_BYTES = 16 * 2**20
"""Pages in use stay under ``FILE_FACTOR * max_bytes + FILE_ALLOWANCE_BYTES``: the factor is for
page rounding and indexes, the allowance for what is not charged, and an empty file."""

_VACUUMED_AT_ONCE = 1_024


class Reads:
    """Handler of a thread whose jobs take a connection and change nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def handle(self, jobs: Sequence[Job[sqlite3.Connection]]) -> None:
        """Do the reads whose caller still waits, each in a transaction."""
        for job in jobs:
            if not job.future.done():
                try:
                    job.result = self._database.run(partial(_read, job=job))
                except Exception as error:  # noqa: BLE001  (the port promises StoreError alone)
                    job.error = as_store_error(error, self._database.files.directory)

    def idle(self) -> None:
        """Do nothing."""

    def take_events(self) -> Sequence[Event]:
        """Return what happened since the last call."""
        return self._database.take_events()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


class Writes:
    """Handler of a thread whose jobs change the file; a batch is one transaction."""

    def __init__(
        self, database: Database, *, keep_bounds: Callable[[sqlite3.Connection], None]
    ) -> None:
        """Do nothing yet.

        Args:
            database: Its own.
            keep_bounds: Called at the end of each transaction, and of each pause.
        """
        self._database = database
        self._keep_bounds = keep_bounds
        self._flushing = Flushing()

    def handle(self, jobs: Sequence[Job[sqlite3.Connection]]) -> None:
        """Commit all ``jobs`` as one; one that brought a bad value does not spoil the others."""
        commit_together(jobs, self._commit, self._database.files.directory)

    def idle(self) -> None:
        """Keep the bounds, give back what is free in the file, keep the write-ahead log short."""
        self._database.attend(self._pause)

    def take_events(self) -> Sequence[Event]:
        """Return what happened since the last call."""
        return self._database.take_events()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _commit(self, jobs: Sequence[Job[sqlite3.Connection]]) -> None:
        def attempt(connection: sqlite3.Connection) -> None:
            self._flushing.set(connection, on=any(job.durable for job in jobs))
            with transaction(connection, write=True):
                for job in jobs:
                    job.result = job.work(connection)
                self._keep_bounds(connection)

        self._database.run(attempt)
        # Another process may have moved the file aside under the transaction.
        while not self._database.is_current():
            self._database.run(attempt)

    def _pause(self, connection: sqlite3.Connection) -> None:
        with transaction(connection, write=True):
            self._keep_bounds(connection)
        tidy(connection, self._database.files.wal)


class Flushing:
    """Chooses whether a commit is flushed before it counts.

    With, what was deleted does not come back after a power cut. Without, as at opening, a commit
    survives a killed process.
    """

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        """The one that flushes, if one does."""

    def set(self, connection: sqlite3.Connection, *, on: bool) -> None:
        """Choose for the transactions to come."""
        if on != (self._connection is connection):
            connection.execute(f"PRAGMA synchronous = {'FULL' if on else 'NORMAL'}")
            self._connection = connection if on else None


def commit_together(
    jobs: Sequence[Job[C]], commit: Callable[[Sequence[Job[C]]], None], directory: Path
) -> None:
    """Commit all ``jobs`` as one; one that brought a bad value does not spoil the others."""
    try:
        commit(jobs)
    except Exception as error:  # noqa: BLE001  (the ports promise StoreError alone)
        if len(jobs) > 1 and concerns_one_call(error):
            for job in jobs:
                commit_together([job], commit, directory)
        else:
            for job in jobs:
                job.error = as_store_error(error, directory)


def excess_bytes(connection: sqlite3.Connection, size_bytes: int, max_bytes: int) -> int:
    """Return how much must go: of what is charged, or of the pages in use."""
    pages_in_use = pragma(connection, "page_count") - pragma(connection, "freelist_count")
    file_bound = FILE_FACTOR * max_bytes + FILE_ALLOWANCE_BYTES
    return max(size_bytes - max_bytes, pages_in_use * PAGE_BYTES - file_bound, 0)


def tidy(connection: sqlite3.Connection, wal: Path) -> None:
    """Give back some of what is free in the file, and keep the write-ahead log short."""
    free_pages = pragma(connection, "freelist_count")
    too_many = free_pages > pragma(connection, "page_count") // 8
    if too_many:
        # A script, because `execute` takes one step of this statement, which is one page.
        connection.executescript(f"PRAGMA incremental_vacuum({_VACUUMED_AT_ONCE})")
    if too_many or (wal.exists() and wal.stat().st_size > MAX_WAL_BYTES):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a number that SQLite knows of the file."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _read(connection: sqlite3.Connection, job: Job[sqlite3.Connection]) -> object:
    with transaction(connection, write=False):
        return job.work(connection)
