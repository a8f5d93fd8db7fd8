"""The ledger's file: tables, connections, and which errors mean what."""

import contextlib
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from stepwell.core.clock import Clock
from stepwell.core.errors import StoreError, StoreUnavailable
from stepwell.telemetry.series import Series, Values

FORMAT = 1
"""Version of the tables, in SQLite's ``user_version``."""

PAST = 0
"""Stands in place of a boot for all boots that were folded."""

_BUSY_SECONDS = 1.0

_TABLES = (
    # `id` is random and tells this file from one put in its place; times are Unix times.
    "CREATE TABLE about (id TEXT NOT NULL, created_at REAL NOT NULL)",
    "CREATE TABLE boots (id INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL UNIQUE)",
    # `labels` is a JSON object; a count is exact up to 2**53, and cannot overflow.
    """CREATE TABLE counters (
        boot INTEGER NOT NULL, name TEXT NOT NULL, labels TEXT NOT NULL, value REAL NOT NULL,
        PRIMARY KEY (boot, name, labels)
    ) WITHOUT ROWID""",
    """CREATE TABLE gauges (
        boot INTEGER NOT NULL, worker TEXT NOT NULL, name TEXT NOT NULL, labels TEXT NOT NULL,
        value REAL NOT NULL, read_at REAL NOT NULL, PRIMARY KEY (boot, worker, name, labels)
    ) WITHOUT ROWID""",
)


class DamagedLedger(StoreError):
    """The file is no ledger that this code can read, and will not become one by waiting."""


@contextlib.contextmanager
def store_errors() -> Iterator[None]:
    """Turn what SQLite raises into what the house raises."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(str(error)) from error
    except sqlite3.Error as error:
        primary_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if primary_code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DamagedLedger(str(error)) from error
        raise StoreUnavailable(str(error)) from error


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Open ``path`` in SQLite's ``mode``: ``rw``, or ``rwc`` to create it if it is missing."""
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(address, timeout=_BUSY_SECONDS, isolation_level=None, uri=True)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all of what is in the block, or nothing; other writers wait."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def make_if_missing(path: Path, clock: Clock) -> None:
    """Make the file with its tables, unless there is one.

    It is made under another name and then linked, so that nobody ever sees half a ledger, and
    of several workers that start at once one wins. The change to SQLite's write-ahead log, which
    is a property of the file, is made there too: it fails where others have the file open.

    Raises:
        StoreUnavailable: The write-ahead log of a deleted ledger is still there; SQLite would
            take it for the new one's.
    """
    log = path.with_name(f"{path.name}-wal")
    log_exists = log.exists()  # asked first: a worker that makes the ledger now makes its log last
    if path.exists():
        return
    if log_exists:
        raise StoreUnavailable(f"{log.name} is left of a ledger that was deleted: delete it too")
    draft = path.with_name(f"{path.name}.new-{secrets.token_hex(8)}")
    try:
        with contextlib.closing(connect(draft, "rwc")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            with transaction(connection):
                for statement in _TABLES:
                    connection.execute(statement)
                about = (secrets.token_hex(16), clock.now())
                connection.execute("INSERT INTO about VALUES (?, ?)", about)
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)


def check(connection: sqlite3.Connection) -> None:
    """Raise `DamagedLedger` unless the whole file is sound. Costs about a millisecond."""
    check_format(connection)
    (report,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if report != "ok":
        raise DamagedLedger(report)


def check_format(connection: sqlite3.Connection) -> None:
    """Raise `DamagedLedger` if the file's tables are not the ones above."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise DamagedLedger(f"format {version} instead of {FORMAT}")


def rows(boot: int, values: Values) -> Iterable[tuple[int, str, str, float]]:
    """Return ``values`` as rows of `counters`."""
    return (
        (boot, series.name, labels_text(series), float(value)) for series, value in values.items()
    )


def read_series(
    connection: sqlite3.Connection, query: str, *arguments: object
) -> dict[Series, float]:
    """Return what ``query`` yields: name, labels and value in each row."""
    return {
        Series(name, tuple(orjson.loads(labels).items())): value
        for name, labels, value in connection.execute(query, arguments)
    }


def read_totals_of(connection: sqlite3.Connection, name: str) -> dict[Series, float]:
    """Return the sums over all boots of the series called ``name``."""
    return read_series(
        connection,
        "SELECT name, labels, sum(value) FROM counters WHERE name = ? GROUP BY labels",
        name,
    )


def add_to_boot(connection: sqlite3.Connection, boot: int, increases: Values) -> None:
    """Add ``increases`` to the counters of ``boot``."""
    connection.executemany(
        "INSERT INTO counters VALUES (?, ?, ?, ?)"
        " ON CONFLICT (boot, name, labels) DO UPDATE SET value = value + excluded.value",
        rows(boot, increases),
    )


def labels_text(series: Series) -> str:
    """Return the labels of ``series`` as they stand in a row: the same text for the same labels."""
    return orjson.dumps(dict(series.labels)).decode()
