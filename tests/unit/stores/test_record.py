"""Records: what is written comes back, and nothing else is taken for a record."""

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.entry import Entry, SourceValue, Usage
from stepwell.core.errors import CorruptEntry
from stepwell.core.names import Form
from stepwell.stores.record import MAGIC, VERSION, decode, encode, seal, unseal
from stepwell.testing.entries import make_entry, make_phrasing
from stepwell.testing.strategies import entries

OLDER = bytes.fromhex(
    "5357454c0200b0016b03dc0011c4201f5087db919ced5c123c7f507d3fcce818cb0cf6e77c2f95a8a35e951e"
    "03fdb9c410e9da86d351cf9a7642d8c50195c3f466b0636861742f636f6d706c6574696f6e73a56d6f64656c"
    "a767656e6572616ca3737365c40f646174613a207b2261223a317d0a0acb408f400000000000cb40b1f80000"
    "000000cb40b2340000000000cd012c070bcb3fe00000000000009192a3666171a2763792a772657475726e73"
    "a6e98080e8b4a793c4202df962d37ee229c547fb4ebef038a1eaecd0cd6f1c109746f4a9c1fa80329254afe6"
    "808ee4b988e98080e8b4a7efbc9fcb3fe0000000000000"
)
"""`older_entry` in version 2."""

GOLDEN = bytes.fromhex(
    "5357454c0300e8b61e48dc0012c4201f5087db919ced5c123c7f507d3fcce818cb0cf6e77c2f95a8a35e95"
    "1e03fdb9c410e9da86d351cf9a7642d8c50195c3f466b0636861742f636f6d706c6574696f6e73a56d6f64"
    "656ca767656e6572616ca3737365c40f646174613a207b2261223a317d0a0acb408f400000000000cb40b1"
    "f80000000000cb40b2340000000000cd012c070bcb3fe00000000000009192a3666171a2763792a7726574"
    "75726e73a6e98080e8b4a793c4202df962d37ee229c547fb4ebef038a1eaecd0cd6f1c109746f4a9c1fa80"
    "329254afe6808ee4b988e98080e8b4a7efbc9fcb3fe000000000000005"
)
"""`golden_entry` in version 3. Files in the field hold such bytes: a new format needs a new
version, not a new constant here."""


def golden_entry() -> Entry:
    return replace(older_entry(), usage=Usage(7, 11, 5))


def older_entry() -> Entry:
    """An entry whose model server was not asked what it had cached."""
    return make_entry(
        body=b'data: {"a":1}\n\n',
        form=Form.SSE,
        stale_seconds=60.0,
        as_of=300,
        sources=(SourceValue("faq", "v7"),),
        tags=("returns", "退货"),
        phrasing=make_phrasing("怎么退货？", temperature=0.5),
    )


def test_format_is_frozen() -> None:
    """An entry is written as it always was, and what was written long ago is still read."""
    assert encode(golden_entry()) == GOLDEN
    assert decode(GOLDEN) == golden_entry()
    assert decode(OLDER) == older_entry()


@given(entries())
def test_round_trip(entry: Entry) -> None:
    """Any entry comes back equal."""
    assert decode(encode(entry)) == entry


@given(st.data(), entries())
def test_any_changed_byte_is_noticed(data: st.DataObject, entry: Entry) -> None:
    """Whichever byte changes, in whichever way, the record is refused."""
    record = bytearray(encode(entry))
    place = data.draw(st.integers(0, len(record) - 1))
    record[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptEntry):
        decode(bytes(record))


def test_any_flipped_bit_is_noticed() -> None:
    """Every single bit of a record counts."""
    for bit in range(len(GOLDEN) * 8):
        record = bytearray(GOLDEN)
        record[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptEntry):
            decode(bytes(record))


def test_truncation_is_noticed() -> None:
    """No beginning of a record is a record, nor is one with something behind it."""
    for length in range(len(GOLDEN)):
        with pytest.raises(CorruptEntry):
            decode(GOLDEN[:length])
    with pytest.raises(CorruptEntry):
        decode(GOLDEN + b"\0")


@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused(foreign: bytes) -> None:
    """Arbitrary bytes are no record."""
    with pytest.raises(CorruptEntry):
        decode(foreign)


def test_newer_version_is_refused() -> None:
    """A whole record of a version to come is not read by guesswork, and the error says so."""
    payload = bytes(unseal(GOLDEN, VERSION))
    newer = struct.pack("<4sHI", MAGIC, VERSION + 1, zlib.crc32(payload)) + payload
    with pytest.raises(CorruptEntry, match="record version 4; this code reads version 3"):
        decode(newer)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc0",  # nil
        b"\x90",  # an empty array
        bytes(unseal(GOLDEN, VERSION)).replace(
            "退".encode(), b"\xff\xff\xff"
        ),  # a tag that is not UTF-8
        bytes(unseal(GOLDEN, VERSION)) + b"\xc0",
        bytes(unseal(GOLDEN, VERSION)).replace(b"chat/completions", b"chat/something!!"),
    ],
)
def test_sealed_but_not_an_entry(payload: bytes) -> None:
    """A correct checksum does not make an entry of what has not its shape."""
    with pytest.raises(CorruptEntry, match="whole but not an entry"):
        decode(seal(payload, VERSION))


def test_text_that_is_not_unicode_is_refused() -> None:
    """A lone surrogate cannot be written, and is no silent replacement character either."""
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode(make_entry(model="\ud800"))
