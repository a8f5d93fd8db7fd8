"""Who computes what: rows with an end."""

import sqlite3
from collections.abc import Sequence

from stepwell.core.embedding import ContentDigest

_OVER_AT_ONCE = 256


def claim(
    connection: sqlite3.Connection,
    version: str,
    digests: Sequence[ContentDigest],
    holder: bytes,
    now: float,
    ends_at: float,
) -> frozenset[ContentDigest]:
    """Take what nobody holds, or whose time is over; return what ``holder`` has now."""
    connection.execute(
        "DELETE FROM claims WHERE (version, digest) IN"
        " (SELECT version, digest FROM claims WHERE ends_at <= ? LIMIT ?)",
        (now, _OVER_AT_ONCE),
    )
    taken = set()
    for digest in digests:
        cursor = connection.execute(
            "INSERT INTO claims VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE"
            " SET holder = ?3, ends_at = ?4 WHERE holder = ?3 OR claims.ends_at <= ?5",
            (version, digest, holder, ends_at, now),
        )
        if cursor.rowcount:
            taken.add(digest)
    return frozenset(taken)


def release(
    connection: sqlite3.Connection, version: str, digests: Sequence[ContentDigest], holder: bytes
) -> None:
    """Give up what ``holder`` still has."""
    connection.executemany(
        "DELETE FROM claims WHERE version = ? AND digest = ? AND holder = ?",
        [(version, digest, holder) for digest in digests],
    )
