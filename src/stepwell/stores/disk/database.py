"""One thread's connection to the file, which survives that the file is damaged or replaced."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import TypeVar

from stepwell.core.clock import Clock
from stepwell.core.events import Degraded, Event
from stepwell.core.names import Position
from stepwell.stores.disk import log, schema
from stepwell.stores.disk.faults import as_store_error, is_damage
from stepwell.stores.disk.files import Files, Identity, identity
from stepwell.stores.disk.generation import Generation

T = TypeVar("T")


class Database:
    """A connection that is opened when it is needed, and again when its name means another file.

    Every call and the making of it belong to one thread; `Files` and `Generation` are shared.
    """

    def __init__(self, files: Files, generation: Generation, clock: Clock) -> None:
        self.files = files
        self.generation = generation
        self._events: list[Event] = []
        self._failing = False
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._identity: Identity | None = None

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what ``work`` returns; if it finds the file damaged, repeat it on a fresh one.

        Raises:
            OSError: The directory or its files cannot be used.
            sqlite3.Error: As ``work`` or opening raise it, unless it says damage.
        """
        try:
            return work(self._current_connection())
        except Exception as error:
            if not is_damage(error, self.files.database):
                raise
            self._replace(error)
        return work(self._current_connection())

    def attend(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run ``work``, which nobody waits for: a failure is an event, once until it works."""
        try:
            self.run(work)
            self._failing = False
        except Exception as error:  # noqa: BLE001  (whatever it is, it becomes the event)
            if not self._failing:
                told = as_store_error(error, self.files.directory)
                self._events.append(Degraded("store.disk", str(told)))
            self._failing = True

    def tell(self, events: Iterable[Event]) -> None:
        """Add to what happened."""
        self._events.extend(events)

    def take_events(self) -> Sequence[Event]:
        """Return what happened since the last call."""
        events, self._events = self._events, []
        return events

    def is_current(self) -> bool:
        """Return whether the file that is open still is the one under its name."""
        return self._connection is not None and identity(self.files.database) == self._identity

    def close(self) -> None:
        """Close the connection; the last one of all processes folds the WAL into the file."""
        if self._connection is not None:
            with ExitStack() as stack:
                # A directory that is gone or read-only: SQLite then deletes nothing by name.
                with suppress(OSError):
                    stack.enter_context(self.files.exclusive())
                self._connection.close()
                self._connection = None

    def _current_connection(self) -> sqlite3.Connection:
        connection = self._connection
        # Still in a transaction: a rollback failed, and nothing else can be asked of it.
        if connection is not None and not connection.in_transaction and self.is_current():
            return connection
        self.close()
        self.files.make_directory()
        self.generation.follow()
        with self.files.exclusive():
            return self._open()

    def _open(self) -> sqlite3.Connection:
        self.files.make_database()
        self._identity = identity(self.files.database)
        connection = schema.connect(self.files.database)
        try:
            self._align(connection)
        except BaseException:
            connection.close()
            raise
        self._identity = identity(self.files.database)
        self._connection = connection
        return connection

    def _align(self, connection: sqlite3.Connection) -> None:
        """Make table and generation agree.

        Table ahead: a process died between commit and raise. Generation ahead: this file is
        the successor of a lost one, or lost its last commits in a power cut. What was said in
        them is unknown, so everybody must be told `Lost`: go on above all that was ever read.
        """
        # In this order: what was announced before the table is read must be found in it.
        announced = self.generation.current()
        last = log.last_position(connection)
        if announced > last:
            with schema.transaction(connection, write=True):
                last = Position(announced + 1)
                log.restart(connection, last)
        self.generation.raise_to(last)

    def _replace(self, error: Exception) -> None:
        """Move the file aside, unless another process was faster, and tell of it."""
        with self.files.exclusive():
            if identity(self.files.database) == self._identity:
                self.files.move_aside(int(self._clock.now()))
                # Even if no change was ever announced: some may have been made.
                self.generation.raise_to(self.generation.current() + 1)
                told = f"damaged, moved aside and started empty: {error}"
                self._events.append(Degraded("store.disk", told))
            # Renamed first: closing the only connection would delete the WAL by its name.
            if self._connection is not None:
                self._connection.close()
                self._connection = None
