"""Prefixes that an operator wants kept, for some time and within some bytes."""

from dataclasses import dataclass, field

from stepwell.core.kv import KvScope
from stepwell.prefix.record import Record
from stepwell.prefix.shelves import Level
from stepwell.prefix.tree import shared_blocks


@dataclass(slots=True, eq=False)
class Pin:
    """A prefix to be kept, and the blocks of it that are."""

    tokens: bytes
    """Whole blocks."""
    deadline: float
    records: list[Record] = field(default_factory=list)


class PinBook:
    """All pins. Under the cache's lock. Costs a comparison of tokens for each pin of a scope."""

    __slots__ = ("_block_bytes", "_by_scope", "_max_bytes", "_next_deadline", "pinned_bytes")

    def __init__(self, max_bytes: int, block_bytes: int) -> None:
        """Let pins hold blocks of up to ``max_bytes``, as they take on the exact shelf."""
        self._max_bytes = max_bytes
        self._block_bytes = block_bytes
        self._by_scope: dict[KvScope, dict[bytes, Pin]] = {}
        self._next_deadline = float("inf")
        self.pinned_bytes = 0

    def __len__(self) -> int:
        """Return how many pins there are."""
        return sum(map(len, self._by_scope.values()))

    def set(self, scope: KvScope, tokens: bytes, deadline: float) -> Pin:
        """Pin a prefix, or say anew until when."""
        pins = self._by_scope.setdefault(scope, {})
        pin = pins.setdefault(tokens, Pin(tokens, deadline))
        pin.deadline = deadline
        self._next_deadline = min(self._next_deadline, deadline)
        return pin

    def remove(self, scope: KvScope, tokens: bytes) -> list[Record]:
        """Unpin a prefix, and return the blocks that it held: each is to be let go once."""
        pins = self._by_scope.get(scope, {})
        pin = pins.pop(tokens, None)
        if pin is None:
            return []
        if not pins:
            del self._by_scope[scope]
        return self._give_up(pin)

    def expire(self, now: float) -> list[Record]:
        """Unpin what is over, and return the blocks that were held."""
        if now < self._next_deadline:
            return []
        late = [
            (scope, tokens)
            for scope, pins in self._by_scope.items()
            for tokens, pin in pins.items()
            if pin.deadline <= now
        ]
        freed = [record for scope, tokens in late for record in self.remove(scope, tokens)]
        every = (pin.deadline for pins in self._by_scope.values() for pin in pins.values())
        self._next_deadline = min(every, default=float("inf"))
        return freed

    def pinned_blocks(self, scope: KvScope, tokens: bytes) -> int:
        """Return how many leading blocks of ``tokens`` some pin wants kept."""
        pins = self._by_scope.get(scope)
        if pins is None:
            return 0
        return max(shared_blocks(pin.tokens, tokens, self._block_bytes) for pin in pins.values())

    def hold(self, scope: KvScope, tokens: bytes, records: list[Record]) -> None:
        """Hold those of a prefix's blocks that are pinned and were not held yet, as bytes allow.

        Args:
            scope: Whose.
            tokens: The prefix.
            records: What is kept of it.
        """
        for pin in self._by_scope.get(scope, {}).values():
            blocks = shared_blocks(pin.tokens, tokens, self._block_bytes)
            wanted = records[:blocks]
            if wanted[: len(pin.records)] != pin.records:
                continue
            for record in wanted[len(pin.records) :]:
                if not self._hold(record):
                    break
                pin.records.append(record)

    def forget_lost(self, scope: KvScope) -> list[Record]:
        """Return the blocks that pins of a scope held and that are gone, so that others can come.

        Each is to be let go once.
        """
        lost = []
        for pin in self._by_scope.get(scope, {}).values():
            while pin.records and pin.records[-1].level is None:
                lost.append(self._let_go(pin.records.pop()))
        return lost

    def _give_up(self, pin: Pin) -> list[Record]:
        records, pin.records = pin.records, []
        return [self._let_go(record) for record in records]

    def _hold(self, record: Record) -> bool:
        size = 0 if record.pins else record.root.block_bytes[Level.EXACT]
        if self.pinned_bytes + size > self._max_bytes:
            return False
        self.pinned_bytes += size
        record.pins += 1
        record.holds += 1
        return True

    def _let_go(self, record: Record) -> Record:
        record.pins -= 1
        if not record.pins:
            self.pinned_bytes -= record.root.block_bytes[Level.EXACT]
        return record
