"""Where blocks stand, and what a shelf must be able to do. The shelves themselves are handed in."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

from stepwell.core.kv import BlockId, KvScope

Block = TypeVar("Block")


class Level(IntEnum):
    """A shelf, fastest first."""

    EXACT = 0
    """In memory, as the model computed it."""
    COMPACT = 1
    """In memory, in a smaller form that loses precision, such as int8."""
    DISK = 2
    """Outside this process, exact; stays when the process ends."""


@dataclass(frozen=True, slots=True)
class BlockName:
    """What a block is called outside this process, and what it can be checked by."""

    scope: bytes
    """The scope's digest."""
    id: BlockId
    before: bytes
    """Name of the block before it; for the first one, the scope's digest."""
    tokens: bytes
    """Its own."""


class Form(Protocol[Block]):
    """How blocks stand in memory. Called without a lock held, from any thread."""

    def block_bytes(self, scope: KvScope) -> int:
        """Return what a packed block takes. The same for all blocks of a scope."""
        ...

    def pack(self, block: Block) -> object:
        """Return the block in this form, never ``None``; no view of the argument."""
        ...

    def unpack(self, packed: object) -> Block:
        """Return the block to compute with; nobody changes it."""
        ...


class AsComputed(Generic[Block]):
    """The form that changes nothing."""

    __slots__ = ("block_bytes",)

    def __init__(self, block_bytes: Callable[[KvScope], int]) -> None:
        """Tell how large a block of a scope is."""
        self.block_bytes = block_bytes

    def pack(self, block: Block) -> object:
        """Return the block."""
        return block

    def unpack(self, packed: object) -> Block:
        """Return the block."""
        return packed  # type: ignore[return-value]  # what `pack` was given


class BlockStore(Protocol[Block]):
    """Keeps blocks outside this process. Blocks its caller; called from several threads."""

    def block_bytes(self, scope: KvScope) -> int:
        """Return the most a written block takes."""
        ...

    def write(self, name: BlockName, block: Block) -> bool:
        """Write a block; return whether it is there now. Writing one again is no fault."""
        ...

    def read(self, name: BlockName) -> Block | None:
        """Return a block, checked; ``None`` if it is gone, damaged, or another one."""
        ...

    def remove(self, name: BlockName) -> None:
        """Remove a block, if it is there."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryShelf(Generic[Block]):
    """A shelf in memory, and how much may stand on it."""

    form: Form[Block]
    max_bytes: int
    tenant_max_bytes: int | None = None
    """Most that one tenant's blocks may take; ``None``: as much as all."""


@dataclass(frozen=True, slots=True)
class DiskShelf(Generic[Block]):
    """A shelf on disk, and how much this process may put there."""

    store: BlockStore[Block]
    max_bytes: int
    tenant_max_bytes: int | None = None
    queue_blocks: int = 4096
    """Blocks that may wait to be written. Waiting ones are in memory anyway."""


@dataclass(frozen=True, slots=True)
class Shelves(Generic[Block]):
    """All shelves of a cache."""

    exact: MemoryShelf[Block]
    compact: MemoryShelf[Block] | None = None
    disk: DiskShelf[Block] | None = None
