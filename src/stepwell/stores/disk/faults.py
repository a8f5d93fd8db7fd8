"""What went wrong with the file, in the words of `stepwell.core.errors`."""

import errno
import os
import sqlite3
from pathlib import Path

from stepwell.core.errors import StoreError, StoreFull, StoreUnavailable

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DAMAGE = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        # Our statements are constant: if one is wrong, the tables are not ours any more.
        sqlite3.SQLITE_ERROR,
    }
)


class Damaged(Exception):
    """The file is not what this code wrote; nothing in it can be trusted."""


def is_damage(error: Exception, database: Path) -> bool:
    """Return whether ``error`` says that the file's content is broken, not the disk or a call."""
    code = _primary_code(error)
    return (
        # The sqlite3 module decodes SQLite's messages, which quote what is broken.
        isinstance(error, Damaged | UnicodeDecodeError)
        or code in _DAMAGE
        # A damaged header can call its file read-only.
        or (code == sqlite3.SQLITE_READONLY and os.access(database, os.W_OK))
    )


def concerns_one_call(error: Exception) -> bool:
    """Return whether other calls may succeed where this one failed: a value it brought is bad."""
    return not isinstance(error, sqlite3.OperationalError | OSError | StoreUnavailable)


def is_lack_of_space(error: Exception) -> bool:
    """Return whether ``error`` says that the disk is full."""
    if isinstance(error, OSError):
        return error.errno in _NO_SPACE
    # The latter comes of the file that SQLite's processes share their locks in.
    code = getattr(error, "sqlite_errorcode", None)
    return _primary_code(error) == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE


def as_store_error(error: Exception, directory: Path) -> StoreError:
    """Return ``error`` as the ports promise it; a `StoreError` comes back as it is."""
    if isinstance(error, StoreError):
        return error
    if is_lack_of_space(error):
        return StoreFull(f"no space left for the disk store in {directory}: {error}")
    return StoreUnavailable(f"disk store in {directory}: {type(error).__name__}: {error}")


def _primary_code(error: Exception) -> int | None:
    # Errors that the sqlite3 module raises by itself carry no code.
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
