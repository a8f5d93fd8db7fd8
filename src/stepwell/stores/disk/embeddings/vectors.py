"""What the tables of vectors mean: find, keep, delete, let go."""

import secrets
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence

from stepwell.core.embedding import ContentDigest, Deletions, Found, Item, KnownText
from stepwell.stores.disk.embeddings import versions
from stepwell.stores.disk.embeddings.schema import ROW_BYTES, read_meta
from stepwell.stores.uses import DAY_SECONDS

KEPT_DELETED_SECONDS = 3_600.0
"""How long it is known of a digest that it was deleted. What began longer ago is refused."""

_VARIABLES = 512
"""In a statement; SQLite's own bound is 32,766."""
_FORGOTTEN_AT_ONCE = 256


def find(connection: sqlite3.Connection, version: str, digests: Sequence[ContentDigest]) -> Found:
    """Return what there is of ``digests``, and the deletions so far. In a transaction."""
    deletions = Deletions(read_meta(connection).deletions)
    known = versions.find(connection, version)
    values: dict[ContentDigest, bytes] = {}
    if known is not None:
        for some in _slices(digests):
            values.update(
                connection.execute(
                    "SELECT digest, value FROM vectors JOIN contents USING (id)"  # noqa: S608
                    f" WHERE version = ? AND digest IN ({_marks(some)})",
                    (known.id, *some),
                )
            )
    return Found(values, deletions)


def keep(
    connection: sqlite3.Connection,
    version: str,
    items: Sequence[Item],
    deletions: Deletions,
    today: int,
) -> Collection[ContentDigest]:
    """Keep ``items`` that are not there; return which are refused."""
    known = versions.find(connection, version)
    if known is None or deletions < max(known.since, read_meta(connection).deletions_floor):
        return frozenset(item.digest for item in items)
    late = _deleted_after(connection, known.id, [item.digest for item in items], deletions)
    for item in items:
        if item.digest not in late:
            _keep_one(connection, known.id, item, today)
    return late


def delete(
    connection: sqlite3.Connection, version: str, digests: Sequence[ContentDigest], now: float
) -> int:
    """Remove ``digests``, and note that for writers to come; return how many there were."""
    (number,) = connection.execute(
        "UPDATE meta SET deletions = deletions + 1 RETURNING deletions"
    ).fetchone()
    _forget_deleted(connection, now - KEPT_DELETED_SECONDS)
    known = versions.find(connection, version)
    if known is None:
        return 0
    there = 0
    for digest in set(digests):
        place = (known.id, digest)
        cursor = connection.execute("DELETE FROM vectors WHERE version = ? AND digest = ?", place)
        there += cursor.rowcount
        connection.execute("REPLACE INTO deleted VALUES (?, ?, ?, ?)", (*place, number, now))
    return there


def note_uses(
    connection: sqlite3.Connection, version: str, digests: Iterable[ContentDigest], day: int
) -> None:
    """Note that ``digests`` were used on a day; unknown ones are ignored."""
    known = versions.find(connection, version)
    if known is not None:
        connection.executemany(
            "UPDATE vectors SET used_day = ?1 WHERE version = ?2 AND digest = ?3 AND used_day < ?1",
            [(day, known.id, digest) for digest in digests],
        )


def unfilled(
    connection: sqlite3.Connection, old: str, new: str, at_most: int
) -> Sequence[KnownText]:
    """Return texts of ``old`` without a vector in ``new``, those used last first."""
    source, filled = versions.find(connection, old), versions.find(connection, new)
    if source is None:
        return []
    rows = connection.execute(
        "SELECT digest, text, CAST(used_day AS INTEGER) FROM vectors AS it JOIN contents USING (id)"
        " WHERE version = ?1 AND has_text AND NOT EXISTS"
        " (SELECT 1 FROM vectors WHERE version = ?2 AND digest = it.digest)"
        " ORDER BY used_day DESC LIMIT ?3",
        (source.id, 0 if filled is None else filled.id, at_most),
    )
    return [
        KnownText(ContentDigest(digest), text.decode(), float(day * DAY_SECONDS))
        for digest, text, day in rows
    ]


def covered(connection: sqlite3.Connection, old: str, new: str) -> int:
    """Return how many texts of ``old`` have a vector in ``new``."""
    source, filled = versions.find(connection, old), versions.find(connection, new)
    if source is None or filled is None:
        return 0
    (count,) = connection.execute(
        "SELECT count(*) FROM vectors AS it WHERE version = ? AND has_text AND EXISTS"
        " (SELECT 1 FROM vectors WHERE version = ? AND digest = it.digest)",
        (source.id, filled.id),
    ).fetchone()
    return int(count)


def deleted(connection: sqlite3.Connection, version: str, at_most: int) -> Sequence[ContentDigest]:
    """Return digests that were deleted of late, the last ones first."""
    known = versions.find(connection, version)
    if known is None:
        return []
    rows = connection.execute(
        "SELECT digest FROM deleted WHERE version = ? ORDER BY number DESC LIMIT ?",
        (known.id, at_most),
    )
    return [ContentDigest(digest) for (digest,) in rows]


def sample(connection: sqlite3.Connection, version: str, at_most: int) -> Sequence[ContentDigest]:
    """Return some digests: neighbours, from a place that is drawn, since digests are random."""
    known = versions.find(connection, version)
    if known is None:
        return []
    start = secrets.token_bytes(32)
    found: list[ContentDigest] = []
    for comparison in (">=", "<"):
        found += (
            ContentDigest(digest)
            for (digest,) in connection.execute(
                f"SELECT digest FROM vectors WHERE version = ? AND digest {comparison} ?"  # noqa: S608
                " ORDER BY digest LIMIT ?",
                (known.id, start, at_most - len(found)),
            )
        )
    return found


def remove_least_used(connection: sqlite3.Connection, excess_bytes: int, at_most: int) -> int:
    """Remove vectors, those used longest ago first, until so much is gone; return how many."""
    rows = []
    found_bytes = 0
    for row in connection.execute(
        "SELECT id, CAST(size_bytes AS INTEGER) FROM vectors ORDER BY used_day, id LIMIT ?",
        (at_most,),
    ):
        if found_bytes >= excess_bytes:
            break
        rows.append((row[0],))
        found_bytes += row[1]
    connection.executemany("DELETE FROM vectors WHERE id = ?", rows)
    return len(rows)


def _keep_one(connection: sqlite3.Connection, version: int, item: Item, today: int) -> None:
    text = None if item.text is None else item.text.encode()
    size_bytes = len(item.value) + len(text or b"") + ROW_BYTES
    cursor = connection.execute(
        "INSERT INTO vectors (version, digest, size_bytes, has_text, used_day)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (version, item.digest, size_bytes, text is not None, today),
    )
    if cursor.rowcount:
        row = (cursor.lastrowid, item.value, text)
        connection.execute("REPLACE INTO contents VALUES (?, ?, ?)", row)


def _deleted_after(
    connection: sqlite3.Connection,
    version: int,
    digests: Sequence[ContentDigest],
    deletions: Deletions,
) -> frozenset[ContentDigest]:
    return frozenset(
        ContentDigest(digest)
        for some in _slices(digests)
        for (digest,) in connection.execute(
            "SELECT digest FROM deleted"  # noqa: S608
            f" WHERE version = ? AND number > ? AND digest IN ({_marks(some)})",
            (version, deletions, *some),
        )
    )


def _forget_deleted(connection: sqlite3.Connection, before: float) -> None:
    """Forget the oldest deletions, and refuse from now on what began before them.

    A deletion is forgotten whole: the floor is below those that are known.
    """
    numbers = [
        number
        for number, deleted_at in connection.execute(
            "SELECT number, deleted_at FROM deleted ORDER BY number LIMIT ?", (_FORGOTTEN_AT_ONCE,)
        )
        if deleted_at < before
    ]
    if numbers:
        connection.execute("DELETE FROM deleted WHERE number <= ?", (numbers[-1],))
        connection.execute(
            "UPDATE meta SET deletions_floor = max(deletions_floor, ?)", (numbers[-1],)
        )


def _slices(digests: Sequence[ContentDigest]) -> Iterator[tuple[ContentDigest, ...]]:
    return (tuple(digests[at : at + _VARIABLES]) for at in range(0, len(digests), _VARIABLES))


def _marks(some: Sequence[object]) -> str:
    return ",".join("?" * len(some))
