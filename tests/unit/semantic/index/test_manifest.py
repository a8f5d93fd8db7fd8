"""The manifest is read as it was written, or not at all."""

import re
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.semantic.index.layout import Shape
from stepwell.semantic.index.manifest import (
    Damaged,
    FileRecord,
    Identity,
    Manifest,
    SegmentRecord,
    decode,
    encode,
)
from stepwell.semantic.index.progress import NOTHING

IDENTITY = Identity("model", 16)
SEGMENT = SegmentRecord(
    "0123456789abcdef" * 2,
    Shape(3, 1, 0, 40),
    (FileRecord("vectors", 192, 7), FileRecord("ivf-0", 12, 2**32 - 1)),
    FileRecord("dead-3", 1, 9),
)
MANIFEST = Manifest(IDENTITY, "lineage", 3, NOTHING, (SEGMENT, replace(SEGMENT, dead=None)))
CONTENT = encode(MANIFEST)


def test_it_comes_back() -> None:
    """Field by field."""
    assert decode(CONTENT, IDENTITY) == MANIFEST


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed(place: int, change: int) -> None:
    """Wherever it is."""
    content = bytearray(CONTENT)
    content[place] ^= change
    if bytes(content).removesuffix(b"\n") == CONTENT.removesuffix(b"\n"):
        return
    with pytest.raises(Damaged):
        decode(bytes(content), IDENTITY)


@given(st.integers(0, len(CONTENT) - 2))
def test_a_torn_one_is_noticed(length: int) -> None:
    """However much of it is left."""
    with pytest.raises(Damaged):
        decode(CONTENT[:length], IDENTITY)


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (replace(MANIFEST, format=2), "another version"),
        (replace(MANIFEST, identity=Identity("other", 16)), "vectors of 'other'"),
        (replace(MANIFEST, identity=Identity("model", 8)), "8 dimensions"),
        (replace(MANIFEST, segments=(replace(SEGMENT, name="../../etc"),)), "none of ours"),
    ],
)
def test_a_foreign_one_is_refused(manifest: Manifest, says: str) -> None:
    """And it is said why."""
    with pytest.raises(Damaged, match=re.escape(says)):
        decode(encode(manifest), IDENTITY)


def test_another_version_need_not_look_the_same() -> None:
    """Its version is what is complained about, not its fields."""
    body = b'{"format":9,"shards":[]}'
    with pytest.raises(Damaged, match="another version"):
        decode(b"%08x\n%s\n" % (zlib.crc32(body), body), IDENTITY)
