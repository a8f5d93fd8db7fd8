"""Searching passages in the file: all vectors are compared, in memory as far as they fit."""

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from stepwell.core.documents import Edition, Passage
from stepwell.core.embedding import ContentDigest
from stepwell.core.vectors import Vector, Vectors
from stepwell.stores.disk.documents.changes import require
from stepwell.stores.disk.documents.tables import HALF

Ids = npt.NDArray[np.int64]

_BLOCK_BYTES = 16 << 20
"""Of vectors read at once where they are not kept."""
_FLOAT_BYTES = 4

_PASSAGE = """
    SELECT d.name, p.digest, p.text, c.start, d.metadata, d.updated_at
    FROM passages p JOIN chunks c ON c.passage = p.id JOIN documents d ON d.id = c.document
    WHERE p.id = ? ORDER BY d.updated_at DESC, d.name, c.number LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class _Held:
    """The vectors of an edition, or of a part of it."""

    ids: Ids
    """Of passages, ascending."""
    vectors: Vectors

    @property
    def size_bytes(self) -> int:
        return self.vectors.nbytes + self.ids.nbytes


class Search:
    """Finds what is nearest; belongs to one thread, as its connection does.

    Keeps the vectors of the editions that were searched last, in single precision; they never
    change, so that after a change only what is new is read. An edition that has more than is kept
    at all is read anew for each search.
    """

    def __init__(self, max_bytes: int) -> None:
        """Keep vectors of ``max_bytes`` in memory at most."""
        self._max_bytes = max_bytes
        self._held: OrderedDict[Edition, _Held] = OrderedDict()

    def nearest(
        self, connection: sqlite3.Connection, edition: Edition, vector: Vector, k: int
    ) -> Sequence[Passage]:
        """As `Library.nearest`. Costs 2 ms for 10,000 passages of 384 dimensions in memory."""
        require(connection, edition)
        best: list[tuple[float, int]] = []
        for held in self._blocks(connection, edition, len(vector)):
            best += _nearest(held, vector, k)
            best = sorted(best, key=lambda found: (-found[0], found[1]))[:k]
        found = (_passage(connection, identifier, cosine) for cosine, identifier in best)
        return [passage for passage in found if passage is not None]

    def _blocks(
        self, connection: sqlite3.Connection, edition: Edition, dimensions: int
    ) -> Iterator[_Held]:
        rows = connection.execute(
            "SELECT id FROM passages WHERE edition = ? ORDER BY id", (edition,)
        )
        ids = np.fromiter((found for (found,) in rows), np.int64)
        row_bytes = dimensions * _FLOAT_BYTES + ids.itemsize
        if len(ids) * row_bytes > self._max_bytes:
            self._held.pop(edition, None)
            at_once = max(1, _BLOCK_BYTES // row_bytes)
            for start in range(0, len(ids), at_once):
                yield _read(connection, ids[start : start + at_once], dimensions)
            return
        yield self._refreshed(connection, edition, ids, dimensions)

    def _refreshed(
        self, connection: sqlite3.Connection, edition: Edition, ids: Ids, dimensions: int
    ) -> _Held:
        """Return all vectors of an edition, reading those that are new."""
        held = self._held.pop(edition, None) or _read(connection, ids[:0], dimensions)
        if not np.array_equal(held.ids, ids):
            new = _read(connection, np.setdiff1d(ids, held.ids, assume_unique=True), dimensions)
            kept = np.isin(held.ids, ids, assume_unique=True)
            # New ids are larger than all before.
            held = _Held(
                np.concatenate([held.ids[kept], new.ids]),
                np.concatenate([held.vectors[kept], new.vectors]),
            )
        self._held[edition] = held
        while sum(one.size_bytes for one in self._held.values()) > self._max_bytes:
            self._held.popitem(last=False)
        return held


def _read(connection: sqlite3.Connection, ids: Ids, dimensions: int) -> _Held:
    if not len(ids):
        return _Held(ids, np.zeros((0, dimensions), np.float32))
    # All passages between the first and the last are of few editions: their ids are dense.
    wanted = set(ids.tolist())
    rows = connection.execute(
        "SELECT id, vector FROM passages WHERE id BETWEEN ? AND ? ORDER BY id",
        (int(ids[0]), int(ids[-1])),
    )
    blobs = [blob for found, blob in rows if found in wanted]
    halves = np.frombuffer(b"".join(blobs), HALF).reshape(len(ids), dimensions)
    return _Held(ids, halves.astype(np.float32))


def _nearest(held: _Held, vector: Vector, k: int) -> list[tuple[float, int]]:
    cosines = held.vectors @ vector
    at = np.arange(len(cosines))
    if k < len(cosines):
        at = np.argpartition(-cosines, k - 1)[:k]
    return list(zip(cosines[at].tolist(), held.ids[at].tolist(), strict=True))


def _passage(connection: sqlite3.Connection, identifier: int, cosine: float) -> Passage | None:
    row = connection.execute(_PASSAGE, (identifier,)).fetchone()
    if row is None:
        return None
    name, digest, text, start, metadata, updated_at = row
    similarity = min(max(cosine, -1.0), 1.0)
    return Passage(
        name, cast("ContentDigest", digest), text, start, similarity, metadata, updated_at
    )
