"""Tables of the file of documents, and what their rows mean."""

import secrets
import sqlite3
from collections.abc import Sequence

import numpy as np

from stepwell.core.documents import (
    COLLECTION_BITS,
    CollectionId,
    CollectionState,
    Edition,
    Epoch,
    Recipe,
)
from stepwell.core.vectors import Vector
from stepwell.stores.disk.opening import Tables
from stepwell.stores.kinds import kind_from_json, kind_to_json

VERSION = 1
NAME = f"documents-v{VERSION}"
"""What the file is called."""

HALF = np.dtype("<f2")
"""How vectors are kept: half precision, as pgvector's ``halfvec``."""

TABLES = Tables(
    VERSION,
    (
        # No id is ever used again: whoever holds one sees that what it meant is gone.
        """CREATE TABLE collections (
             id INTEGER PRIMARY KEY,
             name TEXT NOT NULL UNIQUE,
             epoch INTEGER NOT NULL,
             serving INTEGER)""",
        """CREATE TABLE editions (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             collection INTEGER NOT NULL,
             kind TEXT NOT NULL,
             dimensions INTEGER NOT NULL,
             chunker TEXT NOT NULL,
             UNIQUE (collection, kind, dimensions, chunker))""",
        """CREATE TABLE documents (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             edition INTEGER NOT NULL,
             name TEXT NOT NULL,
             epoch INTEGER NOT NULL,
             content BLOB NOT NULL,
             metadata TEXT NOT NULL,
             updated_at REAL NOT NULL,
             UNIQUE (edition, name))""",
        # A text that several chunks have stands here once, and goes with the last of them.
        """CREATE TABLE passages (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             edition INTEGER NOT NULL,
             digest BLOB NOT NULL,
             text TEXT NOT NULL,
             vector BLOB NOT NULL,
             UNIQUE (edition, digest))""",
        """CREATE TABLE chunks (
             document INTEGER NOT NULL,
             number INTEGER NOT NULL,
             passage INTEGER NOT NULL,
             start INTEGER NOT NULL,
             PRIMARY KEY (document, number)) WITHOUT ROWID""",
        "CREATE INDEX chunks_by_passage ON chunks (passage)",
        "CREATE INDEX passages_by_digest ON passages (digest)",
    ),
)

_STATE = """
    SELECT c.id, c.name, c.epoch, c.serving, e.kind, e.dimensions, e.chunker
    FROM collections c LEFT JOIN editions e ON e.id = c.serving
"""

Row = tuple[int, str, int, int | None, str | None, int, str]


def collections(connection: sqlite3.Connection) -> Sequence[CollectionState]:
    """Return all collections by name. Raises `OtherVersion`."""
    return [_state(row) for row in connection.execute(f"{_STATE} ORDER BY c.name")]


def collection(connection: sqlite3.Connection, name: str) -> CollectionState | None:
    """Return the collection of that name. Raises `OtherVersion`."""
    rows = connection.execute(f"{_STATE} WHERE c.name = ?", (name,))
    return next(map(_state, rows), None)


def make_collection(connection: sqlite3.Connection, name: str) -> CollectionState:
    """Return the collection of that name, which is made if need be. Raises `OtherVersion`."""
    connection.execute(
        "INSERT INTO collections (id, name, epoch) VALUES (?, ?, 0) ON CONFLICT (name) DO NOTHING",
        (secrets.randbits(COLLECTION_BITS), name),
    )
    (row,) = connection.execute(f"{_STATE} WHERE c.name = ?", (name,))
    return _state(row)


def _state(row: Row) -> CollectionState:
    identifier, name, epoch, serving, kind, dimensions, chunker = row
    recipe = None if kind is None else Recipe(kind_from_json(kind), dimensions, chunker)
    return CollectionState(
        CollectionId(identifier),
        name,
        Epoch(epoch),
        None if serving is None else Edition(serving),
        recipe,
    )


def recipe_row(recipe: Recipe) -> tuple[str, int, str]:
    """Return the columns of a recipe."""
    return kind_to_json(recipe.kind), recipe.dimensions, recipe.chunker


def vector_blob(vector: Vector) -> bytes:
    """Return a vector as it is kept."""
    return vector.astype(HALF).tobytes()
