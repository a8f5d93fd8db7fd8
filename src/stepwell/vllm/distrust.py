"""Blocks that could not be loaded are left alone for a while, and so is a disk that fails."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stepwell.core.clock import Clock
from stepwell.core.kv import BlockId

PAUSE_SECONDS = 60.0
_MAX_IN_A_ROW = 3
_MAX_BLOCKS = 10_000


@dataclass(slots=True)
class _Failure:
    until: float
    times: int


class Distrust:
    """Remembers what failed. One thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[BlockId, _Failure] = OrderedDict()
        self._in_a_row = 0
        self._paused_until = 0.0

    def failed(self, block: BlockId) -> None:
        """Note the first block of a load that could not be had."""
        until = self._clock.monotonic() + PAUSE_SECONDS
        failure = self._failures.setdefault(block, _Failure(until, 0))
        self._failures.move_to_end(block)
        failure.until = until
        failure.times += 1
        if len(self._failures) > _MAX_BLOCKS:
            self._failures.popitem(last=False)
        self._in_a_row += 1
        if self._in_a_row >= _MAX_IN_A_ROW:
            self._paused_until = until

    def succeeded(self) -> None:
        """Note that a whole load went well."""
        self._in_a_row = 0

    def renewed(self, blocks: Iterable[BlockId]) -> None:
        """Note that blocks are saved anew, which mends a damaged file, but not twice."""
        for block in blocks:
            failure = self._failures.get(block)
            if failure is not None and failure.times == 1:
                failure.until = 0.0

    def trusted(self, blocks: Sequence[BlockId]) -> int:
        """Return how many blocks, from the first on, may be loaded now."""
        now = self._clock.monotonic()
        if now < self._paused_until:
            return 0
        for count, block in enumerate(blocks):
            failure = self._failures.get(block)
            if failure is not None and now < failure.until:
                return count
        return len(blocks)
