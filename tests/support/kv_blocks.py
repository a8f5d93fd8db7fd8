"""KV blocks whose keys and values are made up."""

from array import array
from collections.abc import Sequence
from hashlib import blake2b

from stepwell.core.kv import KvScope, Tokens
from stepwell.stores.kv.format import BlockHeader, StoredBlock

BLOCK_TOKENS = 16


def make_scope(model: str = "model") -> KvScope:
    """Return a scope that differs from others by the model."""
    return KvScope(model=model, tokenizer="tokenizer", dtype="float32", rope="theta=10000")


def make_tokens(*numbers: int) -> Tokens:
    """Return token ids as bytes."""
    return Tokens(array("i", numbers).tobytes())


def make_block(
    number: int = 0,
    *,
    scope: KvScope | None = None,
    after: BlockHeader | None = None,
    payload_bytes: int = 1000,
) -> StoredBlock:
    """Return a block of 16 tokens from ``number`` on; its payload follows from number and size."""
    digest = (scope or make_scope()).digest()
    payload = blake2b(b"%d" % number).digest() * (payload_bytes // 64 + 1)
    return StoredBlock(
        BlockHeader(
            scope_digest=digest,
            before=digest if after is None else after.id,
            tokens=make_tokens(*range(number, number + BLOCK_TOKENS)),
            position=0 if after is None else after.position + BLOCK_TOKENS,
            form=f"{payload_bytes} bytes",
        ),
        memoryview(payload)[:payload_bytes],
    )


def make_chain(length: int, *, payload_bytes: int = 1000) -> Sequence[StoredBlock]:
    """Return blocks that follow one another."""
    chain: list[StoredBlock] = []
    for number in range(length):
        after = chain[-1].header if chain else None
        chain.append(make_block(number, after=after, payload_bytes=payload_bytes))
    return chain
