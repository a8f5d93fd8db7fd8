"""What a prefix of tokens leaves behind in a model: whose it is, and how it is kept and borrowed.

A KV block is valid for the same model, the same adapter and the same tokens from position 0, and
for nothing else. So everything but the tokens stands in the scope, and tokens are compared as they
are: no hash decides whether a block is used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from types import TracebackType
from typing import NewType, Protocol, Self, TypeVar

from stepwell.core.names import Namespace

Tokens = NewType("Tokens", bytes)
"""Token ids, each as a little-endian signed 32-bit integer; position 0 comes first."""

TOKEN_BYTES = 4

SCOPE_DIGEST_BYTES = 16

BlockId = NewType("BlockId", bytes)
"""Names a block outside this process: 16 bytes, from its scope and all tokens up to its end."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """What was trained on top of a model, such as a LoRA."""

    name: str
    version: str
    """Digest of its weights: a reloaded adapter of the same name is another one."""


@dataclass(frozen=True, slots=True)
class KvScope:
    """All that must be equal, besides the tokens, for a KV block to be valid."""

    model: str
    """Name and digest of the weights."""
    tokenizer: str
    """Its digest."""
    dtype: str
    """Of the weights as they are computed with, and of the keys and values."""
    rope: str
    """How positions are written into the keys: all the settings that change them."""
    adapter: Adapter | None = None
    tenant: Namespace | None = None
    """Whose the tokens are; ``None``: declared public by the operator."""

    def digest(self) -> bytes:
        """Return 16 bytes that name this scope in other processes (BLAKE2b over tagged fields).

        Each field is written with its name and lengths, so that no two meanings come out alike: an
        adapter's name never passes for a tenant.
        """
        hashed = blake2b(digest_size=SCOPE_DIGEST_BYTES, person=b"stepwell kv")
        for one in fields(self):
            value = getattr(self, one.name)
            parts = (value.name, value.version) if isinstance(value, Adapter) else (value,)
            hashed.update(f"{one.name}:{len(parts) if value is not None else 0};".encode())
            for part in parts if value is not None else ():
                written = part if isinstance(part, bytes) else part.encode()
                hashed.update(len(written).to_bytes(8, "little") + written)
        return hashed.digest()


def block_id(before: bytes, tokens: bytes) -> BlockId:
    """Return the name of a block.

    Args:
        before: Digest of its scope for a first block, else the name of the block before it.
        tokens: Its own.
    """
    return BlockId(blake2b(tokens, digest_size=16, key=before, person=b"stepwell kv").digest())


Block = TypeVar("Block")
"""Keys and values of some consecutive tokens in all layers. Not to be changed by anybody."""

Block_co = TypeVar("Block_co", covariant=True)


class KvLease(Protocol[Block_co]):
    """The longest kept prefix of some tokens, which stays for as long as this is open.

    A context manager: leaving the block releases it, whatever happened inside.
    """

    @property
    def matched_tokens(self) -> int:
        """How many tokens, from the first on, have blocks worth loading."""
        ...

    def load(self) -> Sequence[Block_co]:
        """Return the blocks in order. Blocks for as long as reading takes: not for an event loop.

        Fewer than were matched, if one turns out to be damaged or gone: then what stands behind
        it is of no use, either. Never raises for that.
        """
        ...

    def release(self) -> None:
        """Let go of them. May be called twice, from any thread."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class KvCache(Protocol[Block]):
    """Keeps KV blocks and finds the longest prefix that is kept. Safe for many threads."""

    @property
    def block_tokens(self) -> int:
        """How many tokens a block stands for."""
        ...

    def lease(self, scope: KvScope, tokens: Tokens) -> KvLease[Block]:
        """Borrow the longest kept prefix of ``tokens``.

        Costs microseconds, whatever is kept: nothing is copied or read. The last token is never
        matched, because a model must compute at least one to go on.
        """
        ...

    def keep(
        self,
        scope: KvScope,
        tokens: Tokens,
        cut: Callable[[int, int], Sequence[Block]],
        *,
        prompt_tokens: int,
        seconds_per_token: float,
    ) -> int:
        """Keep blocks of ``tokens`` that are not kept yet, as far as there is room for them.

        Args:
            scope: What else they depend on.
            tokens: Prompt and what was generated after it, as far as it was computed.
            cut: Returns copies of the blocks from one number to another, exclusive. Called without
                a lock held, at most once, only for what will be kept.
            prompt_tokens: How many of the tokens were asked; blocks of what was generated leave
                first.
            seconds_per_token: What computing one took: what a hit saves.

        Returns:
            How many blocks were added.
        """
        ...
