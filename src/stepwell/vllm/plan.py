"""What the scheduler tells the workers to load and save, block by block."""

import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from stepwell.core.kv import TOKEN_BYTES, BlockId, Tokens, block_id


@dataclass(frozen=True, slots=True)
class NamedBlock:
    """A whole block of a request's tokens."""

    id: BlockId
    before: bytes
    tokens: Tokens
    position: int
    """How many tokens stand before it."""


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block, and which of vLLM's pages holds its keys and values, or is to."""

    block: NamedBlock
    page: int


@dataclass(frozen=True, slots=True)
class Load:
    """Pages to be filled before the request goes on."""

    request_id: str
    scope_digest: bytes
    blocks: tuple[PlacedBlock, ...]


@dataclass(frozen=True, slots=True)
class Save:
    """Pages to be kept.

    They do not change until the worker says that it has copied them, or, where their request goes
    on, in this step.
    """

    request_id: str
    scope_digest: bytes
    blocks: tuple[PlacedBlock, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What is to begin with one step of the engine."""

    loads: tuple[Load, ...] = ()
    saves: tuple[Save, ...] = ()
    early_saves: tuple[Save, ...] = ()
    """Of requests that go on, whose pages stay for this step only. Nothing is said when these are
    copied."""


def name_blocks(
    scope_digest: bytes, token_ids: Sequence[int], block_tokens: int
) -> Iterator[NamedBlock]:
    """Yield the whole blocks of ``token_ids`` in order. Costs 2 us a block.

    Raises:
        OverflowError: An id is no signed 32-bit integer.
    """
    tokens = _as_bytes(token_ids)
    before = scope_digest
    step = block_tokens * TOKEN_BYTES
    for start in range(0, len(tokens) - step + 1, step):
        own = Tokens(tokens[start : start + step])
        name = block_id(before, own)
        yield NamedBlock(name, before, own, start // TOKEN_BYTES)
        before = name


def shard_digest(scope_digest: bytes, shard: int, shards: int) -> bytes:
    """Return the digest under which one of several workers keeps its part of each block.

    Args:
        scope_digest: Of the whole.
        shard: Which worker, from 0 on.
        shards: How many share a model, by tensor and pipeline parallelism.
    """
    if shards == 1:
        return scope_digest
    return blake2b(
        b"%d/%d" % (shard, shards), digest_size=16, key=scope_digest, person=b"stepwell shard"
    ).digest()


def _as_bytes(token_ids: Sequence[int]) -> Tokens:
    numbers = array("i", token_ids)
    if sys.byteorder == "big":
        numbers.byteswap()
    return Tokens(numbers.tobytes())
