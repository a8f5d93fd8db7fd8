"""The tables of the file of vectors."""

import sqlite3
from typing import NamedTuple

from stepwell.stores.disk.faults import Damaged
from stepwell.stores.disk.opening import Tables

SCHEMA_VERSION = 1

NAME = f"embeddings-v{SCHEMA_VERSION}"
"""Of the files."""

ROW_BYTES = 192
"""Charged for a vector beside value and text: two rows and three indexes."""

# Values stand apart from what is searched and changed about them, as answers do.
_STATEMENTS = (
    # No id is ever used again: rows of a version that went may outlive it for a while.
    """CREATE TABLE versions (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         name TEXT NOT NULL UNIQUE,
         fingerprint BLOB NOT NULL,
         kind TEXT NOT NULL,
         created_at REAL NOT NULL,
         since INTEGER NOT NULL)""",
    "CREATE TABLE retired (id INTEGER PRIMARY KEY)",
    """CREATE TABLE vectors (
         id INTEGER PRIMARY KEY,
         version INTEGER NOT NULL,
         digest BLOB NOT NULL,
         size_bytes INTEGER NOT NULL,
         has_text INTEGER NOT NULL,
         used_day INTEGER NOT NULL,
         UNIQUE (version, digest))""",
    "CREATE INDEX vectors_by_use ON vectors (used_day)",
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, value BLOB NOT NULL, text BLOB)",
    """CREATE TABLE deleted (
         version INTEGER NOT NULL, digest BLOB NOT NULL, number INTEGER NOT NULL,
         deleted_at REAL NOT NULL, PRIMARY KEY (version, digest)) WITHOUT ROWID""",
    "CREATE INDEX deleted_by_number ON deleted (number)",
    """CREATE TABLE canaries (
         version INTEGER NOT NULL, text TEXT NOT NULL, value BLOB NOT NULL,
         PRIMARY KEY (version, text)) WITHOUT ROWID""",
    """CREATE TABLE claims (
         version TEXT NOT NULL, digest BLOB NOT NULL, holder BLOB NOT NULL,
         ends_at REAL NOT NULL, PRIMARY KEY (version, digest)) WITHOUT ROWID""",
    "CREATE INDEX claims_by_end ON claims (ends_at)",
    # One row. Deletions up to the floor are not known by digest any more.
    """CREATE TABLE meta (
         id INTEGER PRIMARY KEY CHECK (id = 1),
         size_bytes INTEGER NOT NULL,
         deletions INTEGER NOT NULL,
         deletions_floor INTEGER NOT NULL)""",
    "INSERT INTO meta VALUES (1, 0, 0, 0)",
    """CREATE TRIGGER vector_came AFTER INSERT ON vectors BEGIN
         UPDATE meta SET size_bytes = size_bytes + new.size_bytes;
       END""",
    """CREATE TRIGGER vector_left AFTER DELETE ON vectors BEGIN
         UPDATE meta SET size_bytes = size_bytes - old.size_bytes;
         DELETE FROM contents WHERE id = old.id;
       END""",
)

TABLES = Tables(SCHEMA_VERSION, _STATEMENTS)


class Meta(NamedTuple):
    """The one row about the whole file."""

    size_bytes: int
    """Sum over all vectors."""
    deletions: int
    deletions_floor: int


def read_meta(connection: sqlite3.Connection) -> Meta:
    """Return the one row about the whole file. Raises `Damaged` if it is not as we write it."""
    row = connection.execute("SELECT size_bytes, deletions, deletions_floor FROM meta").fetchone()
    if row is None or not all(isinstance(value, int) for value in row):
        raise Damaged("the row about the whole file is gone")
    return Meta(*row)
