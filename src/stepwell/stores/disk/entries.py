"""What the tables of entries mean: find, store, select, note uses, make room.

Numbers that come back from a table are cast: a damaged column must not be of another type.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.errors import CorruptEntry
from stepwell.core.names import Arrival, CacheKey
from stepwell.stores.disk import log, worth
from stepwell.stores.disk.faults import Damaged
from stepwell.stores.record import decode, encode


@dataclass(frozen=True, slots=True)
class Gone:
    """Entries that left."""

    entries: int
    size_bytes: int


def find(connection: sqlite3.Connection, key: CacheKey) -> Entry | None:
    """Return the entry under ``key``. Raises `CorruptEntry`; the record is then still there."""
    row = connection.execute(
        "SELECT record FROM records WHERE id = (SELECT id FROM entries WHERE key = ?)", (key,)
    ).fetchone()
    if row is None:
        return None
    if not isinstance(row[0], bytes):
        raise CorruptEntry("a record is not even bytes")
    entry = decode(row[0])
    if entry.key != key:
        raise CorruptEntry("a record stands under another entry's key")
    return entry


def advance(connection: sqlite3.Connection, now: float) -> float:
    """Return ``now``, or the latest moment of use so far if the clock was turned back since.

    Otherwise whatever is stored after such a jump would be worth less than all the rest, and
    leave again at once.
    """
    row = connection.execute(
        "UPDATE meta SET used_at = max(used_at, ?) RETURNING CAST(used_at AS REAL)", (now,)
    ).fetchone()
    if row is None:
        raise Damaged("the row about the whole file is gone")
    return float(row[0])


def store(connection: sqlite3.Connection, entry: Entry, used_at: float) -> Gone | None:
    """Store ``entry``; return what it replaced. Appends the change if there was something."""
    record = encode(entry)
    old = connection.execute(
        "DELETE FROM entries WHERE key = ?"
        " RETURNING CAST(size_bytes AS INTEGER), CAST(worth AS REAL)",
        (entry.key,),
    ).fetchone()
    cursor = connection.execute(
        "INSERT INTO entries"
        " (key, namespace, model, request_class, expires_at, keep_until, size_bytes, worth,"
        " phrased) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.key,
            entry.namespace,
            entry.model,
            entry.request_class,
            entry.expires_at,
            entry.keep_until,
            entry.size_bytes,
            used_at if old is None else worth.used(old[1], used_at, 1),
            entry.phrasing is not None,
        ),
    )
    connection.execute("REPLACE INTO records VALUES (?, ?)", (cursor.lastrowid, record))
    if entry.tags:
        connection.executemany(
            "INSERT OR IGNORE INTO tags VALUES (?, ?)",
            [(tag, cursor.lastrowid) for tag in entry.tags],
        )
    if old is None:
        return None
    log.append_replaced(connection, entry.key)
    return Gone(1, old[0])


def arrived(
    connection: sqlite3.Connection, after: int, at_most: int
) -> tuple[Sequence[Arrived], Arrival]:
    """Return the next phrased entries stored after the arrival ``after``, and the last one seen."""
    rows = connection.execute(
        "SELECT id, key, CAST(expires_at AS REAL) FROM entries"
        " WHERE id > ? AND phrased ORDER BY id LIMIT ?",
        (after, at_most),
    ).fetchall()
    found = [Arrived(CacheKey(key), expires_at) for _, key, expires_at in rows]
    return found, Arrival(int(rows[-1][0]) if rows else after)


def remove_if_corrupt(connection: sqlite3.Connection, key: CacheKey) -> Gone | None:
    """Remove what is under ``key`` if it still cannot be read."""
    try:
        find(connection, key)
    except CorruptEntry:
        row = connection.execute(
            "DELETE FROM entries WHERE key = ? RETURNING CAST(size_bytes AS INTEGER)", (key,)
        ).fetchone()
        return None if row is None else Gone(1, row[0])
    return None


def measure(connection: sqlite3.Connection, selector: Selector) -> Gone:
    """Return how many entries ``selector`` means, and their size."""
    where, values = _condition(selector)
    query = "SELECT count(*), CAST(coalesce(sum(size_bytes), 0) AS INTEGER) FROM entries WHERE "
    entries, size_bytes = connection.execute(query + where, values).fetchone()
    return Gone(entries, size_bytes)


def remove(connection: sqlite3.Connection, selector: Selector) -> Gone:
    """Remove the entries ``selector`` means."""
    gone = measure(connection, selector)
    where, values = _condition(selector)
    connection.execute("DELETE FROM entries WHERE " + where, values)  # noqa: S608  (constant)
    return gone


def note_uses(connection: sqlite3.Connection, uses: Mapping[CacheKey, int], used_at: float) -> None:
    """Raise the worth of the entries that were used so often; unknown keys are ignored."""
    for key, count in uses.items():
        row = connection.execute(
            "SELECT id, CAST(worth AS REAL) FROM entries WHERE key = ?", (key,)
        ).fetchone()
        if row is not None:
            connection.execute(
                "UPDATE entries SET worth = ? WHERE id = ?",
                (worth.used(row[1], used_at, count), row[0]),
            )


def remove_expired(connection: sqlite3.Connection, now: float, at_most: int) -> Gone:
    """Remove entries whose ``keep_until`` is over, the longest over first."""
    rows = connection.execute(
        "SELECT id, CAST(size_bytes AS INTEGER) FROM entries"
        " WHERE keep_until <= ? ORDER BY keep_until LIMIT ?",
        (now, at_most),
    ).fetchall()
    return _remove_rows(connection, rows)


def remove_least_worth(connection: sqlite3.Connection, excess_bytes: int, at_most: int) -> Gone:
    """Remove entries in the order of their worth until ``excess_bytes`` are gone."""
    rows = []
    found_bytes = 0
    for row in connection.execute(
        "SELECT id, CAST(size_bytes AS INTEGER) FROM entries ORDER BY worth LIMIT ?", (at_most,)
    ):
        if found_bytes >= excess_bytes:
            break
        rows.append(row)
        found_bytes += row[1]
    return _remove_rows(connection, rows)


def _remove_rows(connection: sqlite3.Connection, rows: list[tuple[int, int]]) -> Gone:
    if rows:
        connection.executemany("DELETE FROM entries WHERE id = ?", [(row[0],) for row in rows])
    return Gone(len(rows), sum(row[1] for row in rows))


def _condition(selector: Selector) -> tuple[str, list[bytes | str]]:
    """Return what `Selector.matches` says, for a WHERE clause, and the values it needs."""
    clauses = {
        "namespace = ?": selector.namespace,
        "key = ?": selector.key,
        "model = ?": selector.model,
        "request_class = ?": selector.request_class,
        "id IN (SELECT id FROM tags WHERE tag = ?)": selector.tag,
    }
    given = {clause: value for clause, value in clauses.items() if value is not None}
    return " AND ".join(given) or "true", list(given.values())
