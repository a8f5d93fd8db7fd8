"""`PrefixCache`: keeps KV blocks on shelves, lends them, and stays within its bounds."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from stepwell.core.clock import Clock
from stepwell.core.kv import TOKEN_BYTES, KvScope, Tokens
from stepwell.prefix.admission import Admission
from stepwell.prefix.adoption import adopt, chains
from stepwell.prefix.budget import Budget
from stepwell.prefix.figures import CacheFigures, Counts, ShelfFigures
from stepwell.prefix.keeping import Computed, Keeper
from stepwell.prefix.leases import Lease, LeaseBook
from stepwell.prefix.loading import Loader
from stepwell.prefix.pins import PinBook
from stepwell.prefix.policies import Policy
from stepwell.prefix.rate import Rate
from stepwell.prefix.record import Kind, Record, Root, level_of
from stepwell.prefix.room import Memory
from stepwell.prefix.shelves import BlockName, Level, Shelves
from stepwell.prefix.stock import Stock
from stepwell.prefix.writer import Writer

Block = TypeVar("Block")

_PREFILL_WEIGHT: Final = 0.2
"""Of the newest measurement in the moving average of a scope."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that are no shelf's."""

    min_tokens: int = 64
    """Shorter prefixes are neither kept nor lent: what they save is less than what they cost."""
    lease_seconds: float = 600.0
    """After this a lease that was not released is taken back. Longer than any request takes."""
    max_pinned_bytes: int = 0
    """Most that pins hold, as bytes on the exact shelf."""


class PrefixCache(Generic[Block]):
    """A `KvCache` over shelves that are handed in.

    Safe for many threads. One lock, for all scopes, guards what stands where; under it nothing is
    read, written, copied or packed. It is held for 10 us for each thousand tokens that are looked
    up, and for about 3 us for each block that is added. So `lease`, `release`, `pin` and `figures`
    may be called on an event loop; `load`, `keep` and `close` may not.
    """

    def __init__(
        self,
        block_tokens: int,
        shelves: Shelves[Block],
        *,
        policy: Policy,
        admission: Admission,
        limits: Limits,
        clock: Clock,
    ) -> None:
        """Make an empty cache; with a disk shelf, start the thread that writes to it.

        Args:
            block_tokens: Tokens a block stands for; at least 1.
            shelves: Where blocks stand.
            policy: Chooses what leaves; this cache's alone.
            admission: Chooses what others leave for.
            limits: Other bounds.
            clock: Measures what loading takes, and ends leases and pins.

        Raises:
            ValueError: A bound is out of range.
        """
        if block_tokens < 1:
            raise ValueError(f"block_tokens is {block_tokens}; it must be at least 1")
        self._block_tokens = block_tokens
        self._shelves = shelves
        self._limits = limits
        self._clock = clock
        self._lock = lock = Lock()
        self._counts = counts = Counts()
        self._rates = tuple(Rate() for _ in Level)
        self._stock = stock = Stock(block_tokens, _budgets(shelves), policy, counts)
        self._leases: LeaseBook[Block] = LeaseBook(limits.lease_seconds)
        self._pins = PinBook(limits.max_pinned_bytes, block_tokens * TOKEN_BYTES)
        memory = Memory(shelves, stock, lock)
        disk = shelves.disk
        form = shelves.exact.form
        self._writer = Writer(disk, form, stock, lock) if disk is not None else None
        self._keeper = Keeper(memory, stock, self._pins, admission, self._writer, lock)
        self._loader = Loader(memory, disk, self._writer, stock, self._rates, lock, clock)

    @property
    def block_tokens(self) -> int:
        """How many tokens a block stands for."""
        return self._block_tokens

    def lease(self, scope: KvScope, tokens: Tokens) -> Lease[Block]:
        """Borrow the longest kept prefix of ``tokens`` that is worth loading; see `KvCache.lease`.

        Raises:
            ValueError: ``tokens`` is not a whole number of 32-bit integers.
        """
        _check(tokens)
        usable = max(0, len(tokens) // TOKEN_BYTES - 1) // self._block_tokens
        now = self._clock.monotonic()
        with self._lock:
            self._expire(now)
            root = self._stock.roots.get(scope)
            records: list[Record] = []
            if root is not None:
                records = root.tree.payloads(root.tree.find(tokens))[:usable]
                records = self._worth_loading(root, records, now)
            lease = Lease(
                root,
                records,
                tokens,
                load=self._loader.load,
                release=self._release,
                block_tokens=self._block_tokens,
            )
            self._counts.asked_tokens += len(tokens) // TOKEN_BYTES
            if records:
                self._counts.matched_tokens += lease.matched_tokens
                self._stock.used(records)
                self._leases.open(lease, self._stock.hold(records), now)
        return lease

    def keep(
        self,
        scope: KvScope,
        tokens: Tokens,
        cut: Callable[[int, int], Sequence[Block]],
        *,
        prompt_tokens: int,
        seconds_per_token: float,
    ) -> int:
        """Keep blocks of ``tokens`` that are not in memory yet; see `KvCache.keep`.

        Keep the lease open until then: so nothing that the blocks were computed from can change
        its form meanwhile.

        Raises:
            ValueError: ``tokens`` is not a whole number of 32-bit integers, or ``cut`` returned
                another number of blocks than it was asked for. What it raises goes through; then
                nothing was kept.
        """
        _check(tokens)
        blocks = len(tokens) // TOKEN_BYTES // self._block_tokens
        if blocks * self._block_tokens < self._limits.min_tokens:
            with self._lock:
                self._counts.refused["short"] += blocks
            return 0
        whole = tokens[: blocks * self._block_tokens * TOKEN_BYTES]
        with self._lock:
            self._expire(self._clock.monotonic())
            root = self._root(scope)
            _note_prefill(root, seconds_per_token)
        prompt_blocks = min(blocks, max(0, prompt_tokens) // self._block_tokens)
        kinds = (Kind.PROMPT,) * prompt_blocks + (Kind.OUTPUT,) * (blocks - prompt_blocks)
        seconds = max(0.0, seconds_per_token) * self._block_tokens
        return self._keeper.keep(Computed(root, whole, kinds, seconds), cut)

    def pin(self, scope: KvScope, tokens: Tokens, *, ttl_seconds: float) -> int:
        """Have a prefix kept for a time, whatever else comes: what is there now, and what comes.

        Its blocks are let in at first sight and do not leave the shelf they stand on. Pinning it
        again sets the time anew.

        Returns:
            How many of its tokens are kept and held now. Fewer than it has, if they have not been
            computed yet or ``max_pinned_bytes`` is reached.

        Raises:
            ValueError: ``tokens`` is not a whole number of 32-bit integers, or there is not one
                whole block of them.
        """
        whole = self._whole(tokens)
        if not whole:
            raise ValueError(f"a pinned prefix needs at least {self._block_tokens} tokens")
        now = self._clock.monotonic()
        with self._lock:
            self._expire(now)
            pin = self._pins.set(scope, whole, now + ttl_seconds)
            root = self._stock.roots.get(scope)
            if root is not None:
                self._stock.let_go(self._pins.forget_lost(scope))
                self._pins.hold(scope, whole, root.tree.payloads(root.tree.find(whole)))
            return len(pin.records) * self._block_tokens

    def unpin(self, scope: KvScope, tokens: Tokens) -> None:
        """Let go of a prefix that was pinned; nothing happens if it was not."""
        whole = self._whole(tokens)
        with self._lock:
            self._stock.let_go(self._pins.remove(scope, whole))

    def adopt(self, scope: KvScope, names: Iterable[BlockName]) -> int:
        """Take over blocks that an earlier process left on disk, in any order.

        Blocks are not read: what is damaged is noticed when it is loaded. Those that cannot be
        reached from a first block, are not named as their tokens say, or do not fit are left out.

        Returns:
            How many were taken over.
        """
        adopted = 0
        digest, step = scope.digest(), self._block_tokens * TOKEN_BYTES
        for row in chains(digest, names, step):
            with self._lock:
                root = self._root(scope)
                seconds = root.seconds_per_token * self._block_tokens
                adopted += adopt(self._stock, root, row, seconds)
        return adopted

    def figures(self) -> CacheFigures:
        """Return what is kept now, and what was counted. Some microseconds and one a tenant."""
        with self._lock:
            counts = self._counts
            return CacheFigures(
                shelves=tuple(map(self._shelf_figures, self._stock.budgets)),
                scopes=len(self._stock.roots),
                blocks=sum(len(root.tree) for root in self._stock.roots.values()),
                leases=len(self._leases),
                pins=len(self._pins),
                pinned_bytes=self._pins.pinned_bytes,
                asked_tokens=counts.asked_tokens,
                matched_tokens=counts.matched_tokens,
                added_blocks=counts.added_blocks,
                refused_blocks=dict(counts.refused),
                lost_blocks=counts.lost_blocks,
                expired_leases=counts.expired_leases,
                saved_seconds=counts.saved_seconds,
            )

    def flush(self, *, timeout_seconds: float) -> bool:
        """Wait until what was kept so far is on disk or refused; return whether it is."""
        return self._writer is None or self._writer.flush(timeout_seconds)

    def close(self, *, timeout_seconds: float = 10.0) -> None:
        """Write what waits to be written, for as long as that, and stop writing. Idempotent."""
        if self._writer is not None:
            self._writer.close(timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _release(self, lease: Lease[Block]) -> None:
        with self._lock:
            self._stock.let_go(self._leases.close(lease))

    def _expire(self, now: float) -> None:
        for lease in self._leases.overdue(now):
            self._counts.expired_leases += 1
            self._stock.let_go(self._leases.close(lease))
        self._stock.let_go(self._pins.expire(now))

    def _root(self, scope: KvScope) -> Root:
        """Return what is kept of a scope; a new root is kept only once it has a block."""
        root = self._stock.roots.get(scope)
        if root is not None:
            return root
        shelves = self._shelves
        sizes = [shelves.exact.form.block_bytes(scope)]
        sizes.append(shelves.compact.form.block_bytes(scope) if shelves.compact is not None else 1)
        sizes.append(shelves.disk.store.block_bytes(scope) if shelves.disk is not None else 1)
        if min(sizes) < 1:
            raise ValueError(f"blocks of {sizes} bytes on the shelves; at least 1")
        return Root(scope, self._block_tokens, tuple(sizes))

    def _worth_loading(self, root: Root, records: list[Record], now: float) -> list[Record]:
        """Leave out the tail that takes longer to load than to compute."""
        prefill = root.seconds_per_token * self._block_tokens
        while records:
            level = level_of(records[-1])
            if self._rates[level].beats(prefill, root.block_bytes[level], now):
                break
            records = records[: bisect_left(records, level, key=level_of)]
        return records if len(records) * self._block_tokens >= self._limits.min_tokens else []

    def _whole(self, tokens: bytes) -> bytes:
        _check(tokens)
        return tokens[: len(tokens) - len(tokens) % (self._block_tokens * TOKEN_BYTES)]

    def _shelf_figures(self, budget: Budget) -> ShelfFigures:
        return ShelfFigures(
            level=budget.level,
            bytes=budget.used_bytes,
            max_bytes=budget.max_bytes,
            blocks=budget.blocks,
            tenant_bytes=dict(budget.tenant_bytes),
            hit_tokens=budget.hit_tokens,
            seconds_per_byte=self._rates[budget.level].seconds_per_byte,
            evicted_blocks=dict(budget.evicted),
        )


def _budgets(shelves: Shelves[Block]) -> tuple[Budget, ...]:
    """Return a budget for each level; that of a shelf that is not there has no bytes."""
    given = (shelves.exact, shelves.compact, shelves.disk)
    return tuple(
        Budget(level, 0, None)
        if shelf is None
        else Budget(level, shelf.max_bytes, shelf.tenant_max_bytes)
        for level, shelf in zip(Level, given, strict=True)
    )


def _check(tokens: bytes) -> None:
    if len(tokens) % TOKEN_BYTES:
        raise ValueError(f"{len(tokens)} bytes of tokens; each token takes {TOKEN_BYTES}")


def _note_prefill(root: Root, seconds_per_token: float) -> None:
    if seconds_per_token > 0:
        old = root.seconds_per_token
        step = _PREFILL_WEIGHT * (seconds_per_token - old)
        root.seconds_per_token = old + step if old else seconds_per_token
