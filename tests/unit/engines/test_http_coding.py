"""Content codings undone, wherever the bytes are cut."""

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.engines.http_coding import BadCoding, Decoder


def bare(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", bare),
]
BODIES = st.one_of(st.binary(max_size=300), st.integers(0, 300_000).map(bytes))


def unpack(coding: str, packed: bytes, step: int) -> list[bytes]:
    decoder = Decoder(coding)
    pieces = [
        piece
        for start in range(0, len(packed), step)
        for piece in decoder.decode(packed[start : start + step])
    ]
    decoder.finish()
    return pieces


@given(st.sampled_from(PACKERS), BODIES, st.integers(1, 400))
def test_unpacked_is_what_was_packed(
    packer: tuple[str, Callable[[bytes], bytes]], body: bytes, step: int
) -> None:
    """In pieces that are neither empty nor large."""
    coding, pack = packer
    pieces = unpack(coding, pack(body), step)
    assert b"".join(pieces) == body
    assert all(0 < len(piece) <= 65_536 for piece in pieces)


@given(st.sampled_from(PACKERS), BODIES, st.integers(1, 400), st.integers(1, 50))
def test_cut_off_is_not_whole(
    packer: tuple[str, Callable[[bytes], bytes]], body: bytes, step: int, missing: int
) -> None:
    """Unless nothing came at all: a reply without a body may name a coding."""
    coding, pack = packer
    packed = pack(body)[:-missing]
    if packed:
        with pytest.raises(BadCoding, match="cut off"):
            unpack(coding, packed, step)
    else:
        assert unpack(coding, packed, step) == []


@given(st.sampled_from(PACKERS), BODIES, st.integers(1, 400))
def test_bytes_behind_the_end_are_refused(
    packer: tuple[str, Callable[[bytes], bytes]], body: bytes, step: int
) -> None:
    """They belong to nobody's answer."""
    coding, pack = packer
    with pytest.raises(BadCoding, match="behind"):
        unpack(coding, pack(body) + b"x", step)


def test_other_bytes_are_refused_unquoted() -> None:
    """The error says which coding, not what came."""
    with pytest.raises(BadCoding, match="its body is not gzip"):
        unpack("gzip", b"secret" * 10, 100)
