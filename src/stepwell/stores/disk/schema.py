"""Tables of the file of entries and their feed."""

import sqlite3
from typing import NamedTuple

from stepwell.stores.disk.faults import Damaged
from stepwell.stores.disk.files import SCHEMA_VERSION
from stepwell.stores.disk.opening import Tables

# Answers stand apart from what is searched and changed about them: selecting, counting and
# noting hits touch some 150 bytes an entry instead of the pages with the answers. The unique
# index on the key holds the id, so that a read goes from it to the answer at once.
# WITHOUT ROWID only for the small rows: it measured slower for 2 KB values.
_STATEMENTS = (
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
)

TABLES = Tables(SCHEMA_VERSION, _STATEMENTS)


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
