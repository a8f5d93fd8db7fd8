"""Which rows of a segment may match. No I/O."""

import threading
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.uint32]

_MANY = 8
"""One row in so many is more work one by one than all at once."""

_WINDOW = 65_536
"""Rows looked at in one step for those that expire first."""


class RowState(IntEnum):
    """What this worker knows of a row, its expiry apart."""

    HELD = 0
    """It matches until it expires."""
    REMOVED = 1
    """It never matches again."""
    WAITING = 2
    """The worker's delta still answers for it."""


class LiveRows:
    """States of the rows of one segment, and the bitmap that searches select by.

    A bit is set if the row is held and has not expired. Expiries are followed by a pointer into
    the rows in order of expiry, so an expiry costs its own row's bit, and a clock that is set back
    brings back what it let expire.

    Safe for searches on any thread while one other thread changes states.

    Args:
        expires: Seconds since the epoch, one a row.
        expiries: The same, ascending.
        expiry_rows: The row of each of ``expiries``.
        removed: Rows that were removed before, one bool a row, or ``None``.
    """

    def __init__(
        self,
        expires: npt.NDArray[np.float64],
        expiries: npt.NDArray[np.float64],
        expiry_rows: Rows,
        removed: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        rows = len(expiries)
        self._expires = expires
        self._expiries = expiries
        self._expiry_rows = expiry_rows
        self._guard = threading.Lock()
        self.states = np.zeros(rows, np.uint8)
        self.bitmap = np.zeros(max((rows + 7) // 8, 1), np.uint8)
        self._expired = 0
        self._now = -np.inf
        self._next_expiry = float(expiries[0]) if rows else np.inf
        self.removed = 0
        self.waiting = 0
        if removed is not None:
            self.states[removed] = RowState.REMOVED
            self.removed = int(np.count_nonzero(removed))
        self.bitmap[: (rows + 7) // 8] = np.packbits(
            self.states == RowState.HELD, bitorder="little"
        )

    @property
    def expired(self) -> int:
        """Rows that had expired when `follow` was last called, removed ones included."""
        return self._expired

    def follow(self, now: float) -> None:
        """Let what has expired by ``now`` match no longer. Costs a comparison if nothing has."""
        if now < self._next_expiry and not self._expired:
            return
        with self._guard:
            expired = int(np.searchsorted(self._expiries, now, side="right"))
            before, self._expired = self._expired, expired
            rows = self._expiry_rows[min(before, expired) : max(before, expired)]
            self._now = now
            self._write_bits(rows)
            self._next_expiry = (
                float(self._expiries[expired]) if expired < len(self._expiries) else np.inf
            )

    def mark(self, rows: npt.NDArray[np.integer], state: RowState) -> int:
        """Give each of ``rows`` a state, unless it is removed; return how many that changed.

        ``rows`` are distinct.
        """
        with self._guard:
            before = self.states[rows]
            change = (before != RowState.REMOVED) & (before != state)
            rows = rows[change]
            self.waiting -= int(np.count_nonzero(before[change] == RowState.WAITING))
            self.states[rows] = state
            match state:
                case RowState.REMOVED:
                    self.removed += len(rows)
                case RowState.WAITING:
                    self.waiting += len(rows)
            self._write_bits(rows)
            return len(rows)

    def remove(self, row: int) -> bool:
        """Give one row the state of removed ones; return whether that changed it.

        As `mark`, which costs ten times as much for a single row.
        """
        with self._guard:
            before = self.states[row]
            if before == RowState.REMOVED:
                return False
            self.waiting -= int(before == RowState.WAITING)
            self.removed += 1
            self.states[row] = RowState.REMOVED
            self.bitmap[row >> 3] &= 0xFF ^ (1 << (row & 7))
            return True

    def range(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Return which rows from ``start`` to ``stop`` may match."""
        first = start // 8
        bits = np.unpackbits(self.bitmap[first : (stop + 7) // 8], bitorder="little")
        return bits[start - first * 8 : stop - first * 8].view(np.bool_)

    def is_live(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return which of ``rows`` may match."""
        bits: npt.NDArray[np.uint8] = (self.bitmap[rows >> 3] >> (rows & 7).astype(np.uint8)) & 1
        return bits.view(np.bool_)

    def all_live(self) -> bool:
        """Return whether every row may match."""
        return not (self.removed or self.waiting or self._expired)

    def count(self) -> int:
        """Return how many rows are held and not expired. Costs a pass over the bitmap."""
        return int(np.bitwise_count(self.bitmap).sum())

    def first_to_expire(self, count: int) -> npt.NDArray[np.intp]:
        """Return the ``count`` live rows that expire first, in that order."""
        found = [np.empty(0, np.intp)]
        start = self._expired
        while count > 0 and start < len(self._expiry_rows):
            rows = self._expiry_rows[start : start + _WINDOW].astype(np.intp)
            found.append(rows[self.is_live(rows)][:count])
            count -= len(found[-1])
            start += _WINDOW
        return np.concatenate(found)

    def expires(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Return when each of ``rows`` expires."""
        found: npt.NDArray[np.float64] = self._expires[rows]
        return found

    def _write_bits(self, rows: npt.NDArray[np.integer]) -> None:
        """Write the bits of ``rows``, which are distinct, anew. Call under the guard."""
        if len(rows) * _MANY > len(self.states):
            on = (self.states == RowState.HELD) & (self._expires > self._now)
            bits = np.packbits(on, bitorder="little")
            self.bitmap[: len(bits)] = bits
            return
        on = (self.states[rows] == RowState.HELD) & (self._expires[rows] > self._now)
        places = rows >> 3
        masks = np.left_shift(np.uint8(1), (rows & 7).astype(np.uint8))
        np.bitwise_and.at(self.bitmap, places, ~masks)
        np.bitwise_or.at(self.bitmap, places[on], masks[on])
