"""Vectors as bytes, and what texts are found under."""

import hashlib
import struct
import zlib
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stepwell.core.embedding import Precision, VectorKind
from stepwell.core.errors import RequestError
from stepwell.core.names import EVERYONE, Namespace
from stepwell.embedding.cache.naming import text_digest, tokens_digest
from stepwell.embedding.cache.value import HEADER_BYTES, Numbers, pack, unpack

F32, F16, I8 = (VectorKind("here", "model", precision=p) for p in ("f32", "f16", "i8"))
OWNER = Namespace(bytes(range(16)))

vectors = arrays(
    np.float32,
    st.integers(1, 40),
    elements=st.floats(-1e6, 1e6, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6),
).filter(np.any)


@given(vectors, st.integers(0, 2**32 - 1))
def test_f32_changes_nothing(vector: Numbers, tokens: int) -> None:
    back = unpack(pack(vector, F32, tokens), F32)
    assert back is not None
    assert back.vector.tobytes() == vector.tobytes()
    assert back.tokens == tokens


@given(vectors)
def test_f16_keeps_eleven_bits_of_the_large_numbers(vector: Numbers) -> None:
    back = unpack(pack(vector, F16, 0), F16)
    assert back is not None
    most = np.abs(vector).max()
    assert np.all(np.abs(back.vector - vector) <= np.maximum(np.abs(vector), most / 2**28) / 2**11)


@given(vectors)
def test_i8_keeps_127_steps(vector: Numbers) -> None:
    back = unpack(pack(vector, I8, 0), I8)
    assert back is not None
    step = float(np.abs(vector).max()) / 127
    assert np.all(np.abs(back.vector - vector) <= step * 0.5001)


@given(vectors, st.sampled_from([F32, F16, I8]), st.data())
def test_any_damaged_byte_is_seen(vector: Numbers, kind: VectorKind, data: st.DataObject) -> None:
    value = bytearray(pack(vector, kind, 7))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] ^= data.draw(st.integers(1, 255))
    assert unpack(bytes(value), kind) is None


@given(vectors, st.sampled_from([F32, F16, I8]), st.integers(0, 200))
def test_what_is_cut_off_or_longer_is_seen(vector: Numbers, kind: VectorKind, size: int) -> None:
    value = pack(vector, kind, 7)
    resized = (value + bytes(200))[:size]
    assert (unpack(resized, kind) is None) == (size != len(value))


@pytest.mark.parametrize(
    "other",
    [
        VectorKind("here", "other"),
        VectorKind("here", "model", revision="2"),
        VectorKind("here", "model", precision="f16"),
        VectorKind("here", "model", dimensions=3),
    ],
)
def test_another_kinds_value_is_none_of_ours(other: VectorKind) -> None:
    value = pack(np.ones(4, np.float32), F32, 1)
    assert unpack(value, other) is None
    assert unpack(value, F32) is not None


def test_everything_that_changes_a_vector_changes_its_version() -> None:
    """Each part of a kind by itself, and nothing that runs from one part into the next."""
    plain = VectorKind("a", "b")
    changed = [
        replace(plain, **{field.name: _OTHER.get(field.name, "x")}) for field in fields(VectorKind)
    ]
    swapped = [VectorKind("ab", ""), VectorKind("a", "b", pooling="c"), VectorKind("a", "bc")]
    versions = {kind.version for kind in (plain, *changed, *swapped)}
    assert len(versions) == 1 + len(changed) + len(swapped)


_OTHER: dict[str, Any] = {"dimensions": 8, "normalization": "unit", "precision": "f16"}


def test_width_that_was_asked_for_is_checked() -> None:
    kind = VectorKind("here", "model", dimensions=3)
    assert unpack(pack(np.ones(4, np.float32), kind, 1), kind) is None
    assert unpack(pack(np.ones(3, np.float32), kind, 1), kind) is not None


@pytest.mark.parametrize(("precision", "size"), [("f32", 6144), ("f16", 3072), ("i8", 1536)])
def test_size(precision: Precision, size: int) -> None:
    kind = VectorKind("here", "model", precision=precision)
    assert len(pack(np.ones(1536, np.float32), kind, 1)) == HEADER_BYTES + size


def test_layout() -> None:
    """It stands in stores for years: this is what it is."""
    numbers = np.array([1.0, -2.5], np.float32)
    value = pack(numbers, F32, 5)
    fields = b"SWE\x01" + struct.pack("<IIf", 2, 5, 1.0) + F32.fingerprint[6:10]
    body = struct.pack("<2f", 1.0, -2.5)
    assert value == fields + struct.pack("<I", zlib.crc32(fields + body)) + body


def test_vectors_cannot_be_changed_by_one_who_got_them() -> None:
    for kind in (F32, F16, I8):
        back = unpack(pack(np.ones(4, np.float32), kind, 1), kind)
        assert back is not None
        with pytest.raises(ValueError, match="read-only"):
            back.vector[0] = 2


def test_digest_of_a_text_is_its_sha256() -> None:
    assert text_digest("天气") == hashlib.sha256("天气".encode()).digest()


@given(st.lists(st.text(), unique=True, min_size=2, max_size=2))
def test_no_two_texts_or_owners_meet(texts: list[str]) -> None:
    one, other = texts
    digests = {
        text_digest(one),
        text_digest(other),
        text_digest(one, OWNER),
        text_digest(other, OWNER),
        text_digest(one, EVERYONE),
        tokens_digest(list(one.encode())),
        tokens_digest(list(one.encode()), OWNER),
    }
    assert len(digests) == 7


def test_unicode_forms_are_two_texts() -> None:
    assert text_digest("caf\u00e9") != text_digest("cafe\u0301")


def test_lone_surrogate_is_refused() -> None:
    with pytest.raises(RequestError, match="surrogate at character 2"):
        text_digest("ab\ud800")


@pytest.mark.parametrize("tokens", [[-1], [2**32], [1, 2, 2**40]])
def test_odd_tokens_are_refused(tokens: list[int]) -> None:
    with pytest.raises(RequestError, match="Token ids"):
        tokens_digest(tokens)


def test_tokens_are_no_prefix_of_each_other() -> None:
    assert tokens_digest([1]) != tokens_digest([1, 0])
    assert tokens_digest([]) != tokens_digest([0])
