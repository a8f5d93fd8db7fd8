"""What decides which of the blocks that may leave does so first.

A policy gives ranks; the cache keeps the order (`Tails`). It is told of uses with the whole path,
so that a block never ranks higher than one before it that was used as often.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from stepwell.prefix.record import Record
from stepwell.prefix.shelves import Level

MAX_USES: Final = 15
"""Uses counted per block; more say little about tomorrow."""


class Policy(Protocol):
    """Ranks blocks. Called under the cache's lock: microseconds, no I/O."""

    def used(self, records: Sequence[Record]) -> None:
        """Rank blocks that were just added or found, all of one prefix."""
        ...

    def left(self, record: Record) -> None:
        """Note that a block was chosen to leave a shelf."""
        ...


class Lru:
    """Least recently used leaves first."""

    __slots__ = ("_time",)

    def __init__(self) -> None:
        self._time = 0.0
        """Counts uses of prefixes."""

    def used(self, records: Sequence[Record]) -> None:
        """Rank by the time of the use."""
        self._time = now = self._time + 1
        for record in records:
            record.rank = now

    def left(self, record: Record) -> None:
        """Remember nothing."""


class Lfu:
    """Least frequently used leaves first, with dynamic ageing as in LFU-DA.

    A rank is a number of uses plus the rank of the last block that left, so that what was popular
    yesterday is passed one day. See `stepwell.stores.eviction.lfu` for the source.
    """

    __slots__ = ("_age",)

    def __init__(self) -> None:
        self._age = 0.0

    def used(self, records: Sequence[Record]) -> None:
        """Rank by age and number of uses."""
        age = self._age
        for record in records:
            uses = record.uses
            if uses < MAX_USES:
                record.uses = uses = uses + 1
            record.rank = age + uses

    def left(self, record: Record) -> None:
        """Age."""
        self._age = max(self._age, record.rank)


class CostAware:
    """What saves least computing for its bytes leaves first: GreedyDual-Size-Frequency.

    A rank is age + uses x (seconds to compute it / bytes it takes), in units of the mean so far.
    Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy",
    1998. Makes a difference where models of several sizes share a cache, or prompts are so long
    that late tokens cost more than early ones.
    """

    __slots__ = ("_age", "_blocks", "_worth")

    def __init__(self) -> None:
        self._age = 0.0
        self._worth = 0.0
        self._blocks = 0

    def used(self, records: Sequence[Record]) -> None:
        """Rank by age, number of uses, and worth."""
        for record in records:
            worth = record.seconds / record.root.block_bytes[Level.EXACT]
            if record.uses < MAX_USES:
                record.uses += 1
            self._blocks += 1
            self._worth += worth
            mean = self._worth / self._blocks
            record.rank = self._age + record.uses * (worth / mean if mean else 1.0)

    def left(self, record: Record) -> None:
        """Age."""
        self._age = max(self._age, record.rank)
