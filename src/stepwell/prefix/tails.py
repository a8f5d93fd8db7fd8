"""Which blocks may leave a shelf, lowest rank first."""

import heapq
from itertools import count
from typing import Final

from stepwell.prefix.record import Kind, Record
from stepwell.prefix.shelves import Level

_SLACK: Final = 64


class Tails:
    """The last blocks of all prefixes on a shelf, in the order in which they leave.

    Only blocks behind which none stands are in it, so that a use of a long prefix moves nothing: a
    rank that rose meanwhile is noticed when the block comes up, and it is put back where it belongs
    now. A block that may not leave any more is dropped then; who frees it offers it again.

    Each call is one or two sifts through a heap of tuples, whatever is kept: 1 to 2 us. Not safe
    across threads.
    """

    __slots__ = ("_heap", "_level", "_limit", "_members", "_number")

    def __init__(self, level: Level) -> None:
        self._level = level
        self._heap: list[tuple[Kind, float, int, Record]] = []
        self._members: set[Record] = set()
        """Those in the heap."""
        self._number = count()
        """Settles between equal ranks: who was offered first leaves first."""
        self._limit = _SLACK

    def __len__(self) -> int:
        """Return how many blocks are in it, some of which may not leave any more."""
        return len(self._heap)

    def offer(self, record: Record) -> None:
        """Note that a block may leave now. Offering it twice is no fault."""
        if record in self._members:
            return
        if len(self._heap) >= self._limit:
            self._sweep()
        self._members.add(record)
        heapq.heappush(self._heap, (record.kind, record.rank, next(self._number), record))

    def pop(self) -> Record | None:
        """Return the block that leaves next, and forget it; ``None``: all are needed."""
        heap = self._heap
        while heap:
            kind, rank, _, record = heap[0]
            if not record.may_leave(self._level):
                heapq.heappop(heap)
                self._members.discard(record)
            elif (kind, rank) != (record.kind, record.rank):
                again = (record.kind, record.rank, next(self._number), record)
                heapq.heapreplace(heap, again)
            else:
                heapq.heappop(heap)
                self._members.discard(record)
                return record
        return None

    def _sweep(self) -> None:
        """Drop what may not leave any more. As often as the heap has doubled: O(1) an offer."""
        self._heap = [item for item in self._heap if item[3].may_leave(self._level)]
        heapq.heapify(self._heap)
        self._members = {item[3] for item in self._heap}
        self._limit = 2 * len(self._heap) + _SLACK
