"""Tables and settings of the file, and how a connection to it is made ready.

Needs SQLite 3.35 (``RETURNING``), which is older than any that Python 3.11 is shipped with.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stepwell.core.errors import StoreUnavailable
from stepwell.stores.disk.faults import Damaged
from stepwell.stores.disk.files import SCHEMA_VERSION

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

# Answers stand apart from what is searched and changed about them: selecting, counting and
# noting hits touch some 150 bytes an entry instead of the pages with the answers. The unique
# index on the key holds the id, so that a read goes from it to the answer at once.
# WITHOUT ROWID only for the small rows: it measured slower for 2 KB values.
_TABLES = (
    # No id is ever used again: whoever has read up to one finds all that came later behind it.
    """CREATE TABLE entries (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         key BLOB NOT NULL UNIQUE,
         namespace BLOB NOT NULL,
         model TEXT NOT NULL,
         request_class TEXT NOT NULL,
         expires_at REAL NOT NULL,
         keep_until REAL NOT NULL,
         size_bytes INTEGER NOT NULL,
         worth REAL NOT NULL,
         phrased INTEGER NOT NULL)""",
    "CREATE INDEX entries_by_scope ON entries (namespace, model, request_class)",
    "CREATE INDEX entries_by_keep_until ON entries (keep_until)",
    "CREATE INDEX entries_by_worth ON entries (worth)",
    "CREATE TABLE records (id INTEGER PRIMARY KEY, record BLOB NOT NULL)",
    """CREATE TABLE tags (
         tag TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (tag, id)) WITHOUT ROWID""",
    "CREATE INDEX tags_by_id ON tags (id)",
    # The feed. Invalidations stand in both: put must know of old ones when many other changes
    # have already pushed them out of the feed.
    "CREATE TABLE changes (position INTEGER PRIMARY KEY AUTOINCREMENT, record BLOB NOT NULL)",
    "CREATE TABLE invalidations (position INTEGER PRIMARY KEY, record BLOB NOT NULL)",
    """CREATE TABLE sources (
         namespace BLOB NOT NULL, name TEXT NOT NULL, record BLOB NOT NULL,
         PRIMARY KEY (namespace, name)) WITHOUT ROWID""",
    """CREATE TABLE judgements (
         sequence INTEGER PRIMARY KEY, pair BLOB NOT NULL UNIQUE, wrong INTEGER NOT NULL,
         record BLOB NOT NULL)""",
    # One row. The two logs are complete after these positions.
    """CREATE TABLE meta (
         id INTEGER PRIMARY KEY CHECK (id = 1),
         size_bytes INTEGER NOT NULL,
         used_at REAL NOT NULL,
         changes_after INTEGER NOT NULL,
         invalidations_after INTEGER NOT NULL)""",
    "INSERT INTO meta VALUES (1, 0, 0, 0, 0)",
    "INSERT INTO sqlite_sequence (name, seq) VALUES ('changes', 0)",
    # Triggers, so that no statement can forget the sum, the answer or the tags.
    """CREATE TRIGGER entry_came AFTER INSERT ON entries BEGIN
         UPDATE meta SET size_bytes = size_bytes + new.size_bytes;
       END""",
    """CREATE TRIGGER entry_left AFTER DELETE ON entries BEGIN
         UPDATE meta SET size_bytes = size_bytes - old.size_bytes;
         DELETE FROM records WHERE id = old.id;
         DELETE FROM tags WHERE id = old.id;
       END""",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


def connect(path: Path) -> sqlite3.Connection:
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
        _make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


class Meta(NamedTuple):
    """The one row about the whole file."""

    size_bytes: int
    """Sum over all entries."""
    changes_after: int
    """The feed holds every change later than this position."""
    invalidations_after: int
    """The list of invalidations holds every one later than this position."""


def read_meta(connection: sqlite3.Connection) -> Meta:
    """Return the one row about the whole file. Raises `Damaged` if it is not as we write it."""
    row = connection.execute(
        "SELECT size_bytes, changes_after, invalidations_after FROM meta"
    ).fetchone()
    if row is None or not all(isinstance(value, int) for value in row):
        raise Damaged("the row about the whole file is gone")
    return Meta(*row)


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


def _make_tables(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        with transaction(connection, write=True):
            for statement in _TABLES:
                connection.execute(statement)
    # SQLite reads the tables' own words at every opening: one flipped letter in them changes
    # what statements mean, without an error.
    # As bytes: the letter may not be one any more.
    found = connection.execute(
        "SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    )
    expected = {sql.encode() for sql in _TABLES if sql.startswith("CREATE")}
    if {sql for (sql,) in found} != expected:
        raise Damaged(f"the tables are not those of version {SCHEMA_VERSION}")
