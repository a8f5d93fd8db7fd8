"""The register of versions, their canaries, and the going of those that were retired."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepwell.core.embedding import VectorKind, VersionFigures
from stepwell.core.errors import StoreFull, VersionTaken
from stepwell.stores.disk.embeddings.schema import read_meta
from stepwell.stores.kinds import kind_from_json, kind_to_json
from stepwell.stores.uses import DAY_SECONDS


class Known(NamedTuple):
    """A version that is registered."""

    id: int
    since: int
    """Deletions there were when it was registered."""


def find(connection: sqlite3.Connection, version: str) -> Known | None:
    """Return what its rows are found by."""
    row = connection.execute("SELECT id, since FROM versions WHERE name = ?", (version,)).fetchone()
    return None if row is None else Known(*row)


def register(connection: sqlite3.Connection, kind: VectorKind, at_most: int, now: float) -> None:
    """As `stepwell.core.embedding.FullStore.register`."""
    row = connection.execute(
        "SELECT fingerprint FROM versions WHERE name = ?", (kind.version,)
    ).fetchone()
    if row is not None:
        if row[0] != kind.fingerprint:
            raise VersionTaken(f"version {kind.version} is that of another kind of vectors")
        return
    (count,) = connection.execute("SELECT count(*) FROM versions").fetchone()
    if count >= at_most:
        raise StoreFull(f"there are {count} versions, and {at_most} are allowed: retire one")
    since = read_meta(connection).deletions
    connection.execute(
        "INSERT INTO versions (name, fingerprint, kind, created_at, since) VALUES (?, ?, ?, ?, ?)",
        (kind.version, kind.fingerprint, kind_to_json(kind), now, since),
    )


def retire(connection: sqlite3.Connection, version: str) -> None:
    """Forget a version; its rows go by and by. What was begun for it is refused."""
    connection.execute("UPDATE meta SET deletions = deletions + 1")
    known = find(connection, version)
    if known is not None:
        connection.execute("DELETE FROM versions WHERE id = ?", (known.id,))
        connection.execute("DELETE FROM canaries WHERE version = ?", (known.id,))
        connection.execute("DELETE FROM deleted WHERE version = ?", (known.id,))
        connection.execute("INSERT INTO retired VALUES (?)", (known.id,))


def remove_retired(connection: sqlite3.Connection, at_most: int) -> int:
    """Remove vectors of a version that was retired; return how many."""
    row = connection.execute("SELECT id FROM retired LIMIT 1").fetchone()
    if row is None:
        return 0
    removed = connection.execute(
        "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE version = ? LIMIT ?)",
        (row[0], at_most),
    ).rowcount
    if removed < at_most:
        connection.execute("DELETE FROM retired WHERE id = ?", row)
    return removed


def figures(connection: sqlite3.Connection) -> Sequence[VersionFigures]:
    """Return all versions, newest first."""
    rows = connection.execute(
        "SELECT kind, created_at, count(vectors.id), coalesce(sum(size_bytes), 0),"
        " coalesce(sum(has_text), 0), max(used_day)"
        " FROM versions LEFT JOIN vectors ON vectors.version = versions.id"
        " GROUP BY versions.id ORDER BY versions.id DESC"
    ).fetchall()
    return [
        VersionFigures(
            kind=kind_from_json(kind),
            vectors=vectors,
            bytes=size_bytes,
            with_text=with_text,
            created_at=created_at,
            used_at=created_at if used_day is None else float(used_day * DAY_SECONDS),
        )
        for kind, created_at, vectors, size_bytes, with_text, used_day in rows
    ]


def canaries(connection: sqlite3.Connection, version: str) -> Mapping[str, bytes]:
    """Return canaries by text."""
    return dict(
        connection.execute(
            "SELECT text, value FROM canaries"
            " WHERE version = (SELECT id FROM versions WHERE name = ?)",
            (version,),
        )
    )


def keep_canaries(
    connection: sqlite3.Connection, version: str, values: Mapping[str, bytes]
) -> None:
    """Keep canaries, unless there are some."""
    known = find(connection, version)
    if known is not None and not canaries(connection, version):
        connection.executemany(
            "INSERT INTO canaries VALUES (?, ?, ?)",
            [(known.id, text, value) for text, value in values.items()],
        )
