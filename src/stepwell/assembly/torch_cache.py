"""The torch engine's KV cache: shelves for its blocks. Needs the ``torch`` extra."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

import torch

from stepwell.core.clock import Clock
from stepwell.core.kv import BlockId, KvScope, Tokens
from stepwell.engines.torch.int8 import Int8Block, int8_token_bytes, pack_int8, unpack_int8
from stepwell.engines.torch.kv_shape import KvShape
from stepwell.engines.torch.process import TorchSettings
from stepwell.engines.torch.raw_block import block_bytes, block_of
from stepwell.prefix.admission import Adaptive
from stepwell.prefix.cache import Limits, PrefixCache
from stepwell.prefix.leases import Lease
from stepwell.prefix.policies import Lfu
from stepwell.prefix.shelves import AsComputed, BlockName, DiskShelf, MemoryShelf, Shelves
from stepwell.stores.kv.counts import WriteOutcome
from stepwell.stores.kv.files import BlockFiles
from stepwell.stores.kv.format import BlockHeader, StoredBlock

PINNED_SHARE = 2
"""Half of the memory for blocks may be pinned."""

MAX_KNOWN_SCOPES = 10_000
"""Scopes, one for each tenant, of which it is known that their files were taken over."""

_HEADER_BYTES = 1024
"""More than what a file holds besides a block's payload and tokens."""


class Int8Form:
    """The form of the int8 shelf."""

    def __init__(self, shape: KvShape, block_tokens: int) -> None:
        """Take the shape of a token's keys and values."""
        self._shape = shape
        self._bytes = block_tokens * int8_token_bytes(shape.layers, shape.heads, shape.head_size)

    def block_bytes(self, scope: KvScope) -> int:  # noqa: ARG002  (the port's shape)
        """Return what a packed block takes."""
        return self._bytes

    def pack(self, block: torch.Tensor) -> object:
        """Return the block in int8."""
        return pack_int8(block)

    def unpack(self, packed: object) -> torch.Tensor:
        """Return the block to compute with."""
        if not isinstance(packed, Int8Block):
            raise TypeError(f"not an int8 block: {type(packed).__name__}")
        return unpack_int8(packed, self._shape.dtype)


class DiskBlocks:
    """Blocks of one shape as checked files."""

    def __init__(self, files: BlockFiles, shape: KvShape, block_tokens: int) -> None:
        """Keep blocks in ``files``; whatever else lies there is a miss."""
        self._files = files
        self._shape = shape
        self._block_tokens = block_tokens

    def block_bytes(self, scope: KvScope) -> int:  # noqa: ARG002  (the port's shape)
        """Return the most a written block takes."""
        return self._shape.token_bytes * self._block_tokens + _HEADER_BYTES

    def write(self, name: BlockName, block: torch.Tensor) -> bool:
        """Write a block; return whether it is there now."""
        header = BlockHeader(name.scope, name.before, Tokens(name.tokens), 0, self._shape.text)
        outcome = self._files.write(StoredBlock(header, block_bytes(block)))
        return outcome in {WriteOutcome.WRITTEN, WriteOutcome.PRESENT}

    def read(self, name: BlockName) -> torch.Tensor | None:
        """Return a block; ``None`` if it is gone, damaged, or another one."""
        stored = self._files.read(name.scope, name.id)
        if stored is None:
            return None
        header = stored.header
        if (header.tokens, header.form) != (name.tokens, self._shape.text):
            return None
        return block_of(stored.payload, self._shape, self._block_tokens)

    def take_last_error(self) -> str:
        """Return what went wrong last; empty if nothing has since."""
        return self._files.take_last_error()

    def remove(self, name: BlockName) -> None:
        """Remove a block, if it is there."""
        self._files.discard(name.scope, name.id)

    def names(self, scope: bytes) -> list[BlockName]:
        """Return the names of a scope's blocks. Reads the beginning of each file: 30 us."""
        return [
            BlockName(scope, BlockId(header.id), header.before, header.tokens)
            for header in self._files.headers(scope)
            if header.form == self._shape.text
        ]


class LentCache:
    """A `KvCache` that also lends what earlier processes left, and what is public.

    What lies on disk of a scope is taken over when the scope is first asked for, and not at the
    start: whose prompts there will be is not known then.

    What the operator has declared public is kept under a scope of nobody's. Blocks of it are as
    valid for a tenant as its own, for the tokens are the same; and that somebody has asked with
    them before is no secret. What a tenant computes behind them is kept under its own scope.

    Safe for many threads.
    """

    def __init__(self, cache: PrefixCache[torch.Tensor], disk: DiskBlocks | None) -> None:
        """Lend from ``cache``, whose disk shelf is ``disk``, if it has one."""
        self._cache = cache
        self._disk = disk
        self._known: dict[KvScope, None] = {}
        """Scopes that were taken over, the one asked for last at the end."""
        self._lock = Lock()

    @property
    def block_tokens(self) -> int:
        """How many tokens a block stands for."""
        return self._cache.block_tokens

    def lease(self, scope: KvScope, tokens: Tokens) -> Lease[torch.Tensor]:
        """Borrow the longest kept prefix, the owner's or the public one."""
        own = self._lease(scope, tokens)
        if scope.tenant is None:
            return own
        public = self._lease(replace(scope, tenant=None), tokens)
        is_longer = public.matched_tokens > own.matched_tokens
        longer, other = (public, own) if is_longer else (own, public)
        other.release()
        return longer

    def keep(
        self,
        scope: KvScope,
        tokens: Tokens,
        cut: Callable[[int, int], Sequence[torch.Tensor]],
        *,
        prompt_tokens: int,
        seconds_per_token: float,
    ) -> int:
        """Keep blocks; see `KvCache.keep`."""
        return self._cache.keep(
            scope,
            tokens,
            cut,
            prompt_tokens=prompt_tokens,
            seconds_per_token=seconds_per_token,
        )

    def _lease(self, scope: KvScope, tokens: Tokens) -> Lease[torch.Tensor]:
        with self._lock:  # of two that are first, the second one waits to find it
            if self._disk is not None:
                self._take_over(scope, self._disk)
        return self._cache.lease(scope, tokens)

    def _take_over(self, scope: KvScope, disk: DiskBlocks) -> None:
        """Adopt what lies on disk of a scope, unless that was done lately.

        To do it again finds nothing new: it costs the reading of names, and no block.
        """
        if scope in self._known:
            del self._known[scope]
        else:
            self._cache.adopt(scope, disk.names(scope.digest()))
            if len(self._known) >= MAX_KNOWN_SCOPES:
                del self._known[next(iter(self._known))]
        self._known[scope] = None


def make_cache(
    settings: TorchSettings, shape: KvShape, clock: Clock
) -> tuple[PrefixCache[torch.Tensor], DiskBlocks | None]:
    """Return an empty cache for blocks of a shape, and its disk shelf if it has one.

    Raises:
        StoreUnavailable: The folder for blocks cannot be made or written to.
    """
    block_tokens = settings.block_tokens
    exact_bytes = shape.token_bytes * block_tokens
    disk = None
    if settings.disk_bytes:
        files = BlockFiles(Path(settings.kv_folder), max_bytes=settings.disk_bytes, clock=clock)
        disk = DiskBlocks(files, shape, block_tokens)

    def tenants(shelf_bytes: int) -> int | None:
        share = settings.tenant_share
        return None if share >= 1 else int(shelf_bytes * share)

    memory, int8, on_disk = settings.memory_bytes, settings.int8_bytes, settings.disk_bytes
    as_computed = AsComputed[torch.Tensor](lambda _: exact_bytes)
    packed = Int8Form(shape, block_tokens)
    shelves = Shelves(
        exact=MemoryShelf(as_computed, memory, tenants(memory)),
        compact=MemoryShelf(packed, int8, tenants(int8)) if int8 else None,
        disk=DiskShelf(disk, on_disk, tenants(on_disk)) if disk is not None else None,
    )
    cache = PrefixCache(
        block_tokens,
        shelves,
        policy=Lfu(),
        admission=Adaptive(),
        limits=Limits(max_pinned_bytes=settings.memory_bytes // PINNED_SHARE),
        clock=clock,
    )
    return cache, disk
