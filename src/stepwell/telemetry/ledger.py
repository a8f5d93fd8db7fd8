"""The savings ledger: counts of all workers and all runs, in one small SQLite file.

Three tables. `counters` holds a row per boot and series, to which every worker adds what it
counted since it last did; a *boot* is one run of a server with all its workers. `gauges` holds
each live worker's latest readings. `about` says which file this is.

Only boots that still run are kept apart, as `ledger_marks` tells; all others are folded into one,
and the names that callers chose are bounded again while folding, so the file stays small however
often a server restarts, and a running one keeps its counts whoever else opens the file.
"""

import contextlib
import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from stepwell.core.clock import Clock
from stepwell.telemetry.ledger_file import (
    PAST,
    add_to_boot,
    check,
    check_format,
    connect,
    labels_text,
    make_if_missing,
    read_series,
    read_totals_of,
    store_errors,
    transaction,
)
from stepwell.telemetry.ledger_fold import fold
from stepwell.telemetry.ledger_marks import Mark, running_boots
from stepwell.telemetry.series import Series, Values

GAUGE_LIFETIME_SECONDS = 15.0
"""Readings of a worker that has not renewed them for so long are left out: it died."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a ledger holds over all boots."""

    values: Values
    since: float
    """When the ledger was begun, in Unix time."""


class Ledger:
    """An open ledger, for one boot and one worker of it. For one thread.

    Several processes may have the same file open. Every method may raise `DamagedLedger`, or
    `StoreUnavailable` when the file cannot be used after waiting a second for other writers.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, clock: Clock) -> None:
        """Take over ``connection``; use `open`."""
        self._path = path
        self._connection = connection
        self._clock = clock
        self._inode = path.stat().st_ino
        self._boot = PAST
        self._worker = secrets.token_hex(8)
        (self.identity,) = connection.execute("SELECT id FROM about").fetchone()

    @classmethod
    @store_errors()
    def open(cls, path: Path, mark: Mark, clock: Clock) -> Self:
        """Open the ledger at ``path``, make it if there is none, and fold boots that have ended.

        Args:
            path: The file; its directory must exist.
            mark: Of this worker's boot; set up here, and the caller's to take down: a worker that
                lets go of the file for a while still runs.
            clock: Says how old gauges are.

        Raises:
            DamagedLedger: It is damaged, or of another format; it has not been touched.
            StoreUnavailable: It cannot be opened or written.
        """
        with contextlib.ExitStack() as on_failure:
            make_if_missing(path, clock)
            connection = connect(path)
            on_failure.callback(connection.close)
            connection.execute("PRAGMA synchronous = NORMAL")
            check(connection)
            ledger = cls(path, connection, clock)
            ledger._enter_boot(mark)
            on_failure.pop_all()
        return ledger

    def replaced(self) -> bool:
        """Return whether the file was moved or deleted since it was opened."""
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    @store_errors()
    def add(self, increases: Values, gauges: Values) -> None:
        """Add to this boot's counters and renew this worker's ``gauges``: all or nothing.

        Durable against the death of processes at once; a power cut may take the last seconds.
        """
        now = self._clock.now()
        with transaction(self._connection):
            add_to_boot(self._connection, self._boot, increases)
            self._connection.executemany(
                "INSERT OR REPLACE INTO gauges VALUES (?, ?, ?, ?, ?, ?)",
                (
                    (self._boot, self._worker, series.name, labels_text(series), value, now)
                    for series, value in gauges.items()
                ),
            )
            self._connection.execute(
                "DELETE FROM gauges WHERE abs(read_at - ?) > ?", (now, GAUGE_LIFETIME_SECONDS)
            )

    @store_errors()
    def counters(self) -> dict[Series, float]:
        """Return this boot's counters, summed over its workers, dead ones included."""
        return read_series(
            self._connection,
            "SELECT name, labels, value FROM counters WHERE boot = ?",
            self._boot,
        )

    @store_errors()
    def totals_of(self, name: str) -> dict[Series, float]:
        """Return the sums over all boots of the counter called ``name``.

        Costs a pass over the table: some microseconds for each hundred of its rows.
        """
        return read_totals_of(self._connection, name)

    @store_errors()
    def other_gauges(self) -> dict[Series, float]:
        """Return the gauges of this boot's other live workers, summed over them."""
        return read_series(
            self._connection,
            "SELECT name, labels, sum(value) FROM gauges"
            " WHERE boot = ? AND worker <> ? AND abs(read_at - ?) <= ? GROUP BY name, labels",
            *(self._boot, self._worker, self._clock.now(), GAUGE_LIFETIME_SECONDS),
        )

    @store_errors()
    def leave(self) -> None:
        """Take this worker's gauges out, as it is about to end."""
        self._connection.execute("DELETE FROM gauges WHERE worker = ?", (self._worker,))

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._connection.close()

    def _enter_boot(self, mark: Mark) -> None:
        with transaction(self._connection):
            mark.set_up()
            self._connection.execute(
                "INSERT INTO boots (boot) VALUES (?) ON CONFLICT DO NOTHING", (mark.boot,)
            )
            row = self._connection.execute("SELECT id FROM boots WHERE boot = ?", (mark.boot,))
            (self._boot,) = row.fetchone()
            fold(self._connection, running_boots(self._path))


@store_errors()
def read_totals(path: Path) -> Totals:
    """Return the sums over all boots in the ledger at ``path``; it may be in use.

    Raises:
        DamagedLedger: It is damaged, or of another format.
        StoreUnavailable: It does not exist or cannot be read.
    """
    with contextlib.closing(connect(path)) as connection:
        check_format(connection)
        (since,) = connection.execute("SELECT created_at FROM about").fetchone()
        values = read_series(
            connection, "SELECT name, labels, sum(value) FROM counters GROUP BY name, labels"
        )
        return Totals(values, since)


def move_aside(path: Path, inode: int) -> Path | None:
    """Rename the damaged file ``inode`` that was at ``path``, with its write-ahead log.

    Of several workers that find the damage at once only one may do so, or the others would
    rename its new file: the one that makes the link to the new name, which has the inode in it.
    The log goes before the file: SQLite would take it for that of a new one.

    Returns:
        The new path, or ``None`` if another worker was first.

    Raises:
        OSError: It cannot be renamed.
    """
    aside = path.with_name(f"{path.name}.damaged-{inode}")
    try:
        aside.hardlink_to(path)
    except (FileExistsError, FileNotFoundError):
        return None
    if aside.stat().st_ino != inode:
        aside.unlink()
        return None
    for suffix in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    path.unlink()
    return aside
