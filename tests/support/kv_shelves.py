"""Shelves for KV blocks in tests, and a look behind a `PrefixCache`."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.core.clock import Clock
from stepwell.core.kv import BlockId, KvScope, Tokens
from stepwell.core.names import Namespace
from stepwell.prefix.admission import Admission, FirstSight
from stepwell.prefix.cache import Limits, PrefixCache
from stepwell.prefix.policies import Lru, Policy
from stepwell.prefix.record import Kind, Record
from stepwell.prefix.shelves import AsComputed, BlockName, DiskShelf, Level, MemoryShelf, Shelves
from stepwell.testing.clock import HandClock

BLOCK = 4
"""Tokens a block."""
BLOCK_BYTES = 100
"""What one takes as computed."""
COMPACT_BYTES = 40

LIMITS = Limits(min_tokens=0, lease_seconds=60.0, max_pinned_bytes=3 * BLOCK_BYTES)


@dataclass(frozen=True, slots=True)
class Kv:
    """In place of keys and values: the tokens from the first on, up to the block's end."""

    path: bytes
    exact: bool = True


def scope(name: str = "a", tenant: bytes | None = None) -> KvScope:
    """Return a scope of a model."""
    owner = None if tenant is None else Namespace(tenant.ljust(16))
    return KvScope(name, "tokenizer", "f32", "rope", tenant=owner)


def ids(*numbers: int) -> Tokens:
    """Return token ids as bytes."""
    return Tokens(array("i", numbers).tobytes())


def blocks(*numbers: int) -> Tokens:
    """Return one block of tokens for each number."""
    return ids(*(number for number in numbers for _ in range(BLOCK)))


def prompt(*numbers: int) -> Tokens:
    """Return one block for each number, and one token more, so that all blocks can match."""
    return Tokens(blocks(*numbers) + ids(-1))


def cutter(tokens: bytes) -> Callable[[int, int], Sequence[Kv]]:
    """Return what cuts right blocks of ``tokens``."""
    return lambda start, end: [
        Kv(tokens[: (number + 1) * BLOCK * 4]) for number in range(start, end)
    ]


class Int8:
    """A compact form: notes that a block is not exact any more."""

    def block_bytes(self, scope: KvScope) -> int:
        """Return `COMPACT_BYTES`."""
        return COMPACT_BYTES

    def pack(self, block: Kv) -> object:
        """Return the block, marked."""
        return (block.path,)

    def unpack(self, packed: Any) -> Kv:
        """Return the block, marked."""
        (path,) = packed
        return Kv(path, exact=False)


class DictStore:
    """A `BlockStore` in a dict, whose blocks can be spoilt."""

    def __init__(self) -> None:
        self.blocks: dict[BlockId, tuple[BlockName, Kv]] = {}
        self.most = 0
        """Most blocks that were there at once."""
        self.full = False

    def block_bytes(self, scope: KvScope) -> int:
        """Return `BLOCK_BYTES`."""
        return BLOCK_BYTES

    def write(self, name: BlockName, block: Kv) -> bool:
        """Keep a block, unless the disk is full."""
        assert block.exact
        assert block.path.endswith(name.tokens)
        if self.full:
            return False
        self.blocks[name.id] = (name, block)
        self.most = max(self.most, len(self.blocks))
        return True

    def read(self, name: BlockName) -> Kv | None:
        """Return a block."""
        found = self.blocks.get(name.id)
        if found is None:
            return None
        assert found[0] == name
        return found[1]

    def remove(self, name: BlockName) -> None:
        """Remove a block."""
        self.blocks.pop(name.id, None)

    def names(self) -> list[BlockName]:
        """Return what is there, in no order that helps."""
        return sorted((name for name, _ in self.blocks.values()), key=lambda name: name.id)


def make_cache(
    *,
    exact: int = 1_000,
    compact: int | None = None,
    disk: int | None = None,
    store: DictStore | None = None,
    tenant: int | None = None,
    queue: int = 4096,
    policy: Policy | None = None,
    admission: Admission | None = None,
    limits: Limits = LIMITS,
    clock: Clock | None = None,
) -> PrefixCache[Kv]:
    """Return a cache with room for so many blocks on each shelf, and for so many of a tenant."""

    def most(size: int) -> int | None:
        return None if tenant is None else tenant * size

    shelves = Shelves(
        MemoryShelf(AsComputed[Kv](lambda _: BLOCK_BYTES), exact * BLOCK_BYTES, most(BLOCK_BYTES)),
        None
        if compact is None
        else MemoryShelf(Int8(), compact * COMPACT_BYTES, most(COMPACT_BYTES)),
        None
        if disk is None
        else DiskShelf(store or DictStore(), disk * BLOCK_BYTES, most(BLOCK_BYTES), queue),
    )
    return PrefixCache(
        BLOCK,
        shelves,
        policy=policy or Lru(),
        admission=admission or FirstSight(),
        limits=limits,
        clock=clock or HandClock(),
    )


def keep(
    cache: PrefixCache[Kv], tokens: Tokens, of: KvScope | None = None, *, asked: int | None = None
) -> int:
    """Keep all whole blocks of ``tokens``, all of them asked for unless told otherwise."""
    return cache.keep(
        of or scope(),
        tokens,
        cutter(tokens),
        prompt_tokens=len(tokens) // 4 if asked is None else asked,
        seconds_per_token=0.001,
    )


def load(cache: PrefixCache[Kv], tokens: Tokens, of: KvScope | None = None) -> list[Kv]:
    """Return the blocks of the longest kept prefix, which must be the right ones."""
    with cache.lease(of or scope(), tokens) as lease:
        found = list(lease.load())
        assert len(found) * BLOCK == lease.matched_tokens
    for number, block in enumerate(found):
        assert block.path == tokens[: (number + 1) * BLOCK * 4]
    return found


def levels(cache: PrefixCache[Kv], tokens: Tokens, of: KvScope | None = None) -> list[Level | None]:
    """Return on which shelf each kept block of a prompt stands. No use of them."""
    root = cache._stock.roots.get(of or scope())
    if root is None:
        return []
    return [record.level for record in root.tree.payloads(root.tree.find(tokens))]


def audit(cache: PrefixCache[Kv], *, idle: bool = True) -> None:
    """Check that what is counted is what is there, and that all rules hold.

    Args:
        cache: What to look at.
        idle: Nobody uses it: nothing may be held, no room reserved.
    """
    stock = cache._stock
    with cache._lock:
        records = [record for root in stock.roots.values() for record in root.tree]
        assert all(len(root.tree) for root in stock.roots.values())
        for record in records:
            _audit_record(record)
        for level, budget in zip(Level, stock.budgets, strict=True):
            there = [record for record in records if record.stands_on(level)]
            size = sum(record.root.block_bytes[level] for record in there)
            assert budget.used_bytes == sum(budget.tenant_bytes.values()) <= budget.max_bytes
            assert size <= budget.used_bytes
            if idle:
                assert (size, len(there)) == (budget.used_bytes, budget.blocks)
                leaving = {item[3] for item in budget._tails._heap}
                assert {record for record in there if record.may_leave(level)} <= leaving
        if idle:
            assert sum(record.holds - record.pins for record in records) == 0
            assert len(cache._leases) == 0


def _audit_record(record: Record) -> None:
    before = record.parent
    assert record.level is not None
    assert record.run is not None
    assert record in record.run.payloads
    assert (record.memory is None) == (record.level is Level.DISK)
    assert record.on_disk or record.level is not Level.DISK
    assert record.holds >= record.pins >= 0
    if before is not None:
        assert before.level is not None
        assert before.level <= record.level
        assert before.on_disk or not record.on_disk
        assert before.kind is Kind.PROMPT or record.kind is Kind.OUTPUT
    behind = [one for one in record.root.tree if one.parent is record]
    assert record.heirs == [
        sum(one.level is Level.EXACT for one in behind),
        sum(one.memory is not None for one in behind),
        sum(one.on_disk for one in behind),
    ]
