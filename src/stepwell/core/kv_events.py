"""What a model server says about the KV blocks it holds. Hints: it may be late, lost, or wrong.

Whoever listens to a server makes these values; `stepwell.prefix.placement` reads them. They know
no wire format.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from stepwell.core.kv import Tokens

BlockHash = int | bytes
"""A server's own name for a block. Says nothing beyond that server."""

ExtraKeys = tuple[Hashable, ...]
"""What a block depends on besides its tokens and those before it, as its server tells it."""


@dataclass(frozen=True, slots=True)
class BlocksStored:
    """Blocks that follow each other in one prompt are held from now on."""

    blocks: tuple[BlockHash, ...]
    parent: BlockHash | None
    """The block before the first of them; ``None``: they begin the prompt."""
    tokens: Tokens
    """Of all the blocks."""
    block_tokens: int
    adapter: str | None = None
    extra: tuple[ExtraKeys, ...] = field(default=(), repr=False)
    """One for each block, or none at all. The first block's holds the request's salt in clear, so
    this is as secret as the salt: it is left out of what is printed."""
    medium: str | None = None
    """Where they are held: ``GPU``, ``CPU``, ``STORAGE``; ``None``: not said."""


@dataclass(frozen=True, slots=True)
class BlocksRemoved:
    """Blocks are not held any more, in one medium."""

    blocks: tuple[BlockHash, ...]
    medium: str | None = None


@dataclass(frozen=True, slots=True)
class AllCleared:
    """Nothing is held any more."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events were lost and could not be had again."""

    lost: int
    """How many batches."""


@dataclass(frozen=True, slots=True)
class Resync:
    """What came before says nothing any more, as after a restart. The next event is the first."""


KvEvent = BlocksStored | BlocksRemoved | AllCleared | Gap | Resync
