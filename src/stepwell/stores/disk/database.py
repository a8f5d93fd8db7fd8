"""One thread's connection to the file, which survives that the file is damaged or replaced."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Protocol, TypeVar

from stepwell.core.clock import Clock
from stepwell.core.events import Degraded, Event
from stepwell.stores.disk.faults import as_store_error, is_damage
from stepwell.stores.disk.files import Files, Identity, identity
from stepwell.stores.disk.opening import Tables, connect

T = TypeVar("T")


class Companion(Protocol):
    """What stands beside a file, and must agree with it. Called under `Files.exclusive`."""

    def follow(self) -> None:
        """The file is about to be opened. Raises `OSError`."""
        ...

    def align(self, connection: sqlite3.Connection) -> None:
        """It was opened: make both agree. Raises as `Database.run`."""
        ...

    def lost(self) -> None:
        """It was found damaged, and moved aside. Raises `OSError`."""
        ...


class Alone:
    """A file with nothing beside it."""

    def follow(self) -> None:
        """Do nothing."""

    def align(self, connection: sqlite3.Connection) -> None:
        """Do nothing."""

    def lost(self) -> None:
        """Do nothing."""


class Database:
    """A connection that is opened when it is needed, and again when its name means another file.

    Every call and the making of it belong to one thread; `Files` and what stands beside the file
    are shared.
    """

    def __init__(
        self,
        files: Files,
        tables: Tables,
        clock: Clock,
        *,
        beside: Companion,
        component: str = "store.disk",
    ) -> None:
        """Do nothing until something is asked.

        Args:
            files: Where.
            tables: What the file holds.
            clock: Stamps the names of files that are moved aside.
            beside: What must agree with the file.
            component: What failed, in events.
        """
        self.files = files
        self._tables = tables
        self._beside = beside
        self._component = component
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
                self._events.append(Degraded(self._component, str(told)))
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
        with self.files.exclusive():
            self._beside.follow()
            return self._open()

    def _open(self) -> sqlite3.Connection:
        self.files.make_database()
        self._identity = identity(self.files.database)
        connection = connect(self.files.database, self._tables)
        try:
            self._beside.align(connection)
        except BaseException:
            connection.close()
            raise
        self._identity = identity(self.files.database)
        self._connection = connection
        return connection

    def _replace(self, error: Exception) -> None:
        """Move the file aside, unless another process was faster, and tell of it."""
        with self.files.exclusive():
            if identity(self.files.database) == self._identity:
                self.files.move_aside(int(self._clock.now()))
                self._beside.lost()
                told = f"damaged, moved aside and started empty: {error}"
                self._events.append(Degraded(self._component, told))
            # Renamed first: closing the only connection would delete the WAL by its name.
            if self._connection is not None:
                self._connection.close()
                self._connection = None
