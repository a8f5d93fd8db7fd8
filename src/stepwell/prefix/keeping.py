"""Keeping blocks of a prompt that was just computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from stepwell.core.kv import TOKEN_BYTES
from stepwell.prefix.admission import Admission
from stepwell.prefix.pins import PinBook
from stepwell.prefix.record import Kind, Record, Root
from stepwell.prefix.room import Memory
from stepwell.prefix.shelves import Level
from stepwell.prefix.stock import Stock
from stepwell.prefix.writer import Writer

Block = TypeVar("Block")

Cut = Callable[[int, int], Sequence[Block]]


@dataclass(frozen=True, slots=True)
class Computed:
    """A prompt and what was generated after it, as far as whole blocks were computed."""

    root: Root
    tokens: bytes
    """Of whole blocks only."""
    kinds: tuple[Kind, ...]
    """One for each block."""
    seconds_per_block: float


@dataclass(frozen=True, slots=True)
class _Plan:
    held: list[Record]
    """What is in memory already; stays meanwhile."""
    holding: list[Record]
    """Those of it that are to be let go of."""
    level: Level
    """Where the rest belongs."""
    pinned: int
    """How many leading blocks a pin wants kept."""


class Keeper(Generic[Block]):
    """Plans under the lock, makes room and copies without it, and puts things up under it again.

    What follows a block stands on the same shelf in memory as it does: what was computed after
    keys that have lost precision is not exact either, so it is packed at once, and never written.
    """

    __slots__ = ("_admission", "_lock", "_memory", "_pins", "_stock", "_writer")

    def __init__(
        self,
        memory: Memory[Block],
        stock: Stock,
        pins: PinBook,
        admission: Admission,
        writer: Writer[Block] | None,
        lock: Lock,
    ) -> None:
        self._memory = memory
        self._stock = stock
        self._pins = pins
        self._writer = writer
        self._lock = lock
        self._admission = admission

    def keep(self, computed: Computed, cut: Cut[Block]) -> int:
        """Keep what is not in memory yet; return how many blocks were added there."""
        with self._lock:
            plan = self._plan(computed)
        first, granted = len(plan.held), 0
        packed: list[object] = []
        try:
            granted = self._reserve(plan, computed)
            packed = self._copies(plan.level, cut, first, first + granted)
        finally:
            with self._lock:
                added = self._put_up(plan, computed, packed)
                self._stock.give_back(plan.level, computed.root, granted - added)
                self._stock.let_go(plan.holding)
        return added

    def _plan(self, computed: Computed) -> _Plan:
        tree = computed.root.tree
        records = tree.payloads(tree.find(computed.tokens))
        kinds = computed.kinds[: len(records)]
        for record, kind in zip(reversed(records), reversed(kinds), strict=True):
            if record.kind is Kind.PROMPT:
                break
            record.kind = kind
        held = [record for record in records if record.memory is not None]
        holding = self._stock.hold(held)
        level = held[-1].level if held else Level.EXACT
        pinned = self._pins.pinned_blocks(computed.root.scope, computed.tokens)
        return _Plan(held, holding, level or Level.EXACT, pinned)

    def _reserve(self, plan: _Plan, computed: Computed) -> int:
        """Make room for what is worthy; take what is free for the rest."""
        root, held = computed.root, len(plan.held)
        seen = self._admission.worthy_blocks(
            root.digest, computed.tokens, root.tree.block_tokens, held
        )
        worthy = max(0, max(seen, plan.pinned) - held)
        rest = len(computed.kinds) - held
        granted = self._memory.make_room(plan.level, root, worthy)
        with self._lock:
            if granted == worthy:
                granted += self._stock.reserve(plan.level, root, rest - granted, evict=False)
            refused = self._stock.counts.refused
            refused["no_room"] += max(0, worthy - granted)
            refused["first_sight"] += rest - max(granted, worthy)
        return granted

    def _copies(self, level: Level, cut: Cut[Block], start: int, end: int) -> list[object]:
        if start == end:
            return []
        blocks = cut(start, end)
        if len(blocks) != end - start:
            raise ValueError(f"cut({start}, {end}) returned {len(blocks)} blocks")
        form = self._memory.form(level)
        return [form.pack(block) for block in blocks]

    def _put_up(self, plan: _Plan, computed: Computed, packed: list[object]) -> int:
        """Add blocks behind those held; return how many were still missing."""
        first = len(plan.held)
        root = self._stock.roots.get(computed.root.scope, computed.root)
        end = first + len(packed)
        added = 0
        records = root.tree.payloads(root.tree.find(computed.tokens))
        if packed and _follows(records, first, plan.level):
            tokens = computed.tokens[: end * root.tree.block_tokens * TOKEN_BYTES]
            kinds = computed.kinds[:end]
            records = self._stock.add(root, tokens, kinds, computed.seconds_per_block)
            added = self._stand(records[first:end], plan.level, packed)
        self._after(root, computed, records)
        return added

    def _stand(self, records: list[Record], level: Level, packed: list[object]) -> int:
        there = sum(record.memory is not None for record in records)
        self._stock.stand(records[there:], level, packed[there:])
        added = len(records) - there
        self._stock.counts.added_blocks += added
        return added

    def _after(self, root: Root, computed: Computed, records: list[Record]) -> None:
        scope = root.scope
        self._stock.let_go(self._pins.forget_lost(scope))
        self._pins.hold(scope, computed.tokens, records)
        if self._writer is not None:
            exact = [record for record in records if record.level is Level.EXACT]
            self._writer.offer(exact)


def _follows(records: list[Record], first: int, level: Level) -> bool:
    """Return whether blocks for ``level`` may stand behind the first ones, as things are now.

    Meanwhile, what was held may have been lost to damage, or another thread may have been faster.
    """
    before = records[max(0, first - 1) :]
    if first and (len(records) < first or before[0].memory is None):
        return False
    return all(record.level is level for record in before if record.memory is not None)
