"""Keeps the file of vectors within its size."""

import sqlite3

from stepwell.stores.disk.embeddings import vectors, versions
from stepwell.stores.disk.embeddings.schema import read_meta
from stepwell.stores.disk.transactions import excess_bytes

_RETIRED_AT_ONCE = 1_000
_EVICTED_AT_ONCE = 64


class Bounds:
    """What is retired leaves first, then what was used longest ago."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    def keep(self, connection: sqlite3.Connection) -> None:
        """Remove what must go, and some of what may. In a transaction that writes."""
        versions.remove_retired(connection, _RETIRED_AT_ONCE)
        while excess := self._excess_bytes(connection):
            if versions.remove_retired(connection, _RETIRED_AT_ONCE):
                continue
            if not vectors.remove_least_used(connection, excess, _EVICTED_AT_ONCE):
                # Empty, yet over the bound: the sum was damaged, or the rest takes the room.
                connection.execute("UPDATE meta SET size_bytes = 0")
                break

    def _excess_bytes(self, connection: sqlite3.Connection) -> int:
        return excess_bytes(connection, read_meta(connection).size_bytes, self._max_bytes)
