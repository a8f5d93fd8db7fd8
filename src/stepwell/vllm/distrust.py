"""Blocks that could not be loaded are left alone for a while, and so is a disk that fails."""

from collections import OrderedDict

from stepwell.core.clock import Clock
from stepwell.core.kv import BlockId

PAUSE_SECONDS = 60.0
_FAILURES_IN_A_ROW = 3
_MAX_BLOCKS = 10_000


class Distrust:
    """Remembers what failed. One thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: OrderedDict[BlockId, float] = OrderedDict()
        self._failures = 0
        self._paused_until = 0.0

    def failed(self, block: BlockId) -> None:
        """Note the first block of a load that could not be had."""
        until = self._clock.monotonic() + PAUSE_SECONDS
        self._until[block] = until
        self._until.move_to_end(block)
        if len(self._until) > _MAX_BLOCKS:
            self._until.popitem(last=False)
        self._failures += 1
        if self._failures >= _FAILURES_IN_A_ROW:
            self._paused_until = until

    def succeeded(self) -> None:
        """Note that a whole load went well."""
        self._failures = 0

    def trusted(self, blocks: tuple[BlockId, ...]) -> int:
        """Return how many blocks, from the first on, may be loaded now."""
        now = self._clock.monotonic()
        if now < self._paused_until:
            return 0
        for count, block in enumerate(blocks):
            if self._until.get(block, 0.0) > now:
                return count
        return len(blocks)
