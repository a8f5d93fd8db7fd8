"""How a connection to a file of ours is made ready, and what a transaction is.

Needs SQLite 3.35 (``RETURNING``), which is older than any that Python 3.11 is shipped with.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stepwell.core.errors import StoreUnavailable
from stepwell.stores.disk.faults import Damaged

BUSY_SECONDS = 5.0
"""How long a transaction waits for another process's."""

PAGE_BYTES = 8192
"""Three 2 KB answers share a page: the file takes 1.17 of what is charged, against 1.70 with
pages of 4 KB; pages of 16 KB double what a single write costs."""

WAL_KEPT_BYTES = 16 * 2**20

_SETTINGS = (
    f"PRAGMA page_size = {PAGE_BYTES}",
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA wal_autocheckpoint = 1000",
    f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}",
    # Zeroes what is freed where that costs no extra write; builds differ in their default.
    "PRAGMA secure_delete = FAST",
)


@dataclass(frozen=True, slots=True)
class Tables:
    """What a file holds."""

    version: int
    """Stands in the file, and in its name."""
    statements: tuple[str, ...]
    """That make it; each table and index by a ``CREATE`` of its own."""


def connect(path: Path, tables: Tables) -> sqlite3.Connection:
    """Return a connection for the calling thread, ready for use; the tables are made if need be.

    Call under `Files.exclusive`.

    Raises:
        Damaged: The file is not one of ours.
        sqlite3.Error: It is broken, or cannot be opened.
        StoreUnavailable: The file system cannot share it between processes.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
        _share(connection, path)
        _make_tables(connection, tables)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    """Commit what is done inside, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # SQLite may have rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _share(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(
            f"{path}: its file system does not support SQLite's WAL; choose a local disk"
        )


def _make_tables(connection: sqlite3.Connection, tables: Tables) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        with transaction(connection, write=True):
            for statement in tables.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {tables.version}")
    # SQLite reads the tables' own words at every opening: one flipped letter in them changes
    # what statements mean, without an error.
    # As bytes: the letter may not be one any more.
    found = connection.execute(
        "SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    )
    expected = {sql.encode() for sql in tables.statements if sql.startswith("CREATE")}
    if {sql for (sql,) in found} != expected:
        raise Damaged(f"the tables are not those of version {tables.version}")
