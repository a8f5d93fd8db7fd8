"""How a KV block is written down."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.kv_blocks import make_block

from stepwell.core.kv import Tokens
from stepwell.stores.kv.format import (
    BlockHeader,
    Damaged,
    StoredBlock,
    header_bytes,
    parse,
    trailer_bytes,
)

ids = st.binary(min_size=16, max_size=16)
headers = st.builds(
    BlockHeader,
    scope_digest=ids,
    before=ids,
    tokens=st.integers(0, 2000).map(lambda count: Tokens(bytes(range(4)) * count)),
    position=st.integers(0, 2**32 - 1),
    form=st.text(max_size=20),
)


def written(block: StoredBlock) -> bytes:
    header = header_bytes(block.header, len(block.payload))
    return header + block.payload + trailer_bytes(header, block.payload)


@given(headers, st.binary(max_size=300))
def test_comes_back_as_it_was(header: BlockHeader, payload: bytes) -> None:
    """What is parsed is what was written, and the payload begins at a multiple of 64 bytes."""
    block = StoredBlock(header, memoryview(payload))
    content = written(block)
    assert parse(bytearray(content)) == block
    assert content.index(payload, len(header_bytes(header, len(payload)))) % 64 == 0


@given(headers, st.binary(max_size=300), st.binary(max_size=300))
@example(make_block().header, b"", b"")
def test_hostile_bytes(header: BlockHeader, payload: bytes, junk: bytes) -> None:
    """Bytes that nobody wrote are damaged, whatever they are; so is junk behind a header."""
    with pytest.raises(Damaged):
        parse(junk)
    with pytest.raises(Damaged):
        parse(header_bytes(header, len(payload)) + junk)


def test_every_flipped_byte_is_noticed() -> None:
    """No byte of a file can change without the block being damaged."""
    content = bytearray(written(make_block(payload_bytes=300)))
    for place in range(len(content)):
        for flip in (1, 0x80, 0xFF):
            content[place] ^= flip
            with pytest.raises(Damaged):
                parse(content)
            content[place] ^= flip
    assert parse(content) == make_block(payload_bytes=300)


def test_every_length_is_noticed() -> None:
    """A file that is too short or too long is damaged, wherever it was cut."""
    content = written(make_block(payload_bytes=300))
    for length in range(len(content)):
        with pytest.raises(Damaged):
            parse(content[:length])
    with pytest.raises(Damaged):
        parse(content + b"\0")


def test_payload_of_another_block() -> None:
    """A payload with a matching checksum under another block's header is damaged."""
    one, other = make_block(1), make_block(2)
    start = len(header_bytes(one.header, 1000))
    with pytest.raises(Damaged, match="payload"):
        parse(written(one)[:start] + written(other)[start:])


@pytest.mark.parametrize(
    ("form", "scope_digest", "position"),
    [("x" * 65_536, bytes(16), 0), ("", bytes(15), 0), ("", bytes(16), 2**32)],
)
def test_header_that_does_not_fit(form: str, scope_digest: bytes, position: int) -> None:
    """What the format cannot say is refused, not cut."""
    header = BlockHeader(scope_digest, bytes(16), Tokens(b""), position, form)
    with pytest.raises(ValueError, match=r"no room|16 bytes"):
        header_bytes(header, 0)
