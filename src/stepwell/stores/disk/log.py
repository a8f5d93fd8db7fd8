"""The change feed in its tables, and the current values of named sources."""

import sqlite3
from collections.abc import Iterator, Sequence

from stepwell.core.changes import Change, Invalidated, Judged, Lost, SourceMoved
from stepwell.core.entry import Entry, Selector
from stepwell.core.errors import CorruptEntry, StoreFull
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import EVERYONE, CacheKey, Namespace, Position
from stepwell.stores.disk.faults import Damaged
from stepwell.stores.disk.opening import transaction
from stepwell.stores.disk.schema import read_meta
from stepwell.stores.messages import (
    invalidated_message,
    judged_message,
    read_message,
    replaced_message,
    source_message,
)

KEPT_CHANGES = 10_000
"""Length of the feed, and of the list of invalidations."""

MAX_JUDGEMENTS = 100_000
"""Kept. Of more, the oldest *right* is forgotten first: a wrong one keeps an answer back."""

MAX_SOURCES = 10_000
MAX_ALL_SOURCES = 100_000
"""Named sources of one namespace."""

_TRIM_EVERY = 256


def last_position(connection: sqlite3.Connection) -> Position:
    """Return the position of the last change ever appended."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
    if row is None or not isinstance(row[0], int):
        raise Damaged("the feed's position is gone")
    return Position(row[0])


def restart(connection: sqlite3.Connection, position: Position) -> None:
    """Forget all changes and go on after ``position``: every reader has then lost the thread."""
    connection.execute("DELETE FROM changes")
    connection.execute("DELETE FROM invalidations")
    connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'changes'", (position,))
    connection.execute(
        "UPDATE meta SET changes_after = ?, invalidations_after = ?", (position, position)
    )


def append_replaced(connection: sqlite3.Connection, key: CacheKey) -> None:
    """Append that the entry under ``key`` is a newer one."""
    _append(connection, replaced_message(key))


def append_invalidated(connection: sqlite3.Connection, selector: Selector) -> None:
    """Append that what ``selector`` means is gone."""
    message = invalidated_message(selector)
    position = _append(connection, message)
    connection.execute("REPLACE INTO invalidations VALUES (?, ?)", (position, message))


def is_outrun(connection: sqlite3.Connection, entry: Entry) -> bool:
    """Return whether an invalidation later than ``entry.as_of`` means ``entry``.

    Also true if the list does not reach back that far: then nobody knows.
    """
    row = connection.execute(
        "SELECT invalidations_after > ?1, EXISTS (SELECT 1 FROM invalidations WHERE position > ?1)"
        " FROM meta",
        (entry.as_of,),
    ).fetchone()
    if row is None:
        raise Damaged("the row about the whole file is gone")
    too_old, has_later = row
    if too_old or not has_later:
        return bool(too_old)
    later = connection.execute(
        "SELECT position, record FROM invalidations WHERE position > ?", (entry.as_of,)
    )
    return any(
        isinstance(change, Invalidated) and change.selector.matches(entry)
        for change in _changes(later)
    )


def read_after(
    connection: sqlite3.Connection, position: Position
) -> tuple[Sequence[Change], Position]:
    """Return the changes after ``position`` and the position of the last. In one transaction."""
    with transaction(connection, write=False):
        last = last_position(connection)
        if position < read_meta(connection).changes_after:
            return [Lost(last)], last
        later = connection.execute(
            "SELECT position, record FROM changes WHERE position > ? ORDER BY position",
            (position,),
        )
        return list(_changes(later)), last


def move_source(
    connection: sqlite3.Connection, namespace: Namespace, name: str, value: str
) -> bool:
    """Set the value of a source and append the change; return ``False`` if it had that value.

    A value for `EVERYONE` takes the values away that single namespaces have, so that it is the
    latest word for all.

    Raises:
        StoreFull: The namespace has too many sources.
    """
    record = source_message(namespace, name, value)
    old = connection.execute(
        "SELECT record FROM sources WHERE namespace = ? AND name = ?", (namespace, name)
    ).fetchone()
    own = 0
    if namespace == EVERYONE:
        own = connection.execute(
            "DELETE FROM sources WHERE name = ? AND namespace <> ?", (name, namespace)
        ).rowcount
    if old == (record,) and not own:
        return False
    if old is None:
        (known,) = connection.execute(
            "SELECT count(*) FROM sources WHERE namespace = ?", (namespace,)
        ).fetchone()
        if known >= MAX_SOURCES:
            raise StoreFull(f"a namespace can have {MAX_SOURCES} sources; {name!r} is one more")
        if namespace != EVERYONE:
            _check_all_sources(connection)
    connection.execute("REPLACE INTO sources VALUES (?, ?, ?)", (namespace, name, record))
    _append(connection, record)
    return True


def _check_all_sources(connection: sqlite3.Connection) -> None:
    """Refuse one more where namespaces, which cost a caller nothing, have very many together."""
    (all_known,) = connection.execute("SELECT count(*) FROM sources").fetchone()
    if all_known >= MAX_ALL_SOURCES:
        raise StoreFull(f"all namespaces together can have {MAX_ALL_SOURCES} sources")


def source_values(connection: sqlite3.Connection) -> dict[tuple[Namespace, str], str]:
    """Return the current value of every source."""
    values = {}
    for (record,) in connection.execute("SELECT record FROM sources"):
        match _read(0, record):
            case SourceMoved(_, namespace, name, value):
                values[namespace, name] = value
            case _:
                raise Damaged("a source is not a source")
    return values


def judge(connection: sqlite3.Connection, judgement: Judgement) -> None:
    """Keep a judgement, in place of an older one of the same pair, and append the change."""
    message = judged_message(judgement)
    # Replacing gives it a new sequence: the latest stands last, and the oldest leaves first.
    connection.execute(
        "REPLACE INTO judgements (pair, wrong, record) VALUES (?, ?, ?)",
        (judgement.pair, judgement.verdict is Verdict.WRONG, message),
    )
    connection.execute(
        "DELETE FROM judgements WHERE sequence IN (SELECT sequence FROM judgements"
        " ORDER BY wrong, sequence LIMIT max(0, (SELECT count(*) FROM judgements) - ?))",
        (MAX_JUDGEMENTS,),
    )
    _append(connection, message)


def judgements(connection: sqlite3.Connection) -> Sequence[Judgement]:
    """Return all judgements that are kept, oldest first."""
    found = []
    for (record,) in connection.execute("SELECT record FROM judgements ORDER BY sequence"):
        match _read(0, record):
            case Judged(_, judgement):
                found.append(judgement)
            case _:
                raise Damaged("a judgement is not a judgement")
    return found


def _append(connection: sqlite3.Connection, message: bytes) -> Position:
    cursor = connection.execute("INSERT INTO changes (record) VALUES (?)", (message,))
    position = Position(cursor.lastrowid or 0)
    if position % _TRIM_EVERY == 0:
        _trim(connection, position)
    return position


def _trim(connection: sqlite3.Connection, last: Position) -> None:
    floor = last - KEPT_CHANGES
    if connection.execute("DELETE FROM changes WHERE position <= ?", (floor,)).rowcount:
        connection.execute("UPDATE meta SET changes_after = ?", (floor,))
    oldest = connection.execute(
        "SELECT position FROM invalidations ORDER BY position DESC LIMIT 1 OFFSET ?",
        (KEPT_CHANGES,),
    ).fetchone()
    if oldest is not None:
        connection.execute("DELETE FROM invalidations WHERE position <= ?", oldest)
        connection.execute("UPDATE meta SET invalidations_after = ?", oldest)


def _read(position: int, message: bytes) -> Change:
    try:
        return read_message(position, message)
    except CorruptEntry as error:
        raise Damaged(f"a row of the feed or of the sources: {error}") from error


def _changes(rows: sqlite3.Cursor) -> Iterator[Change]:
    return (_read(position, message) for position, message in rows)
