"""Replies with vectors: read in either encoding, written so that nothing is lost."""

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.wire.embedding_replies import (
    BrokenReply,
    ForeignReply,
    read_embeddings_reply,
    write_embeddings_reply,
)
from stepwell.wire.embeddings import Encoding

finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def reply(*embeddings: Any, **more: Any) -> bytes:
    data = [
        {"object": "embedding", "index": place, "embedding": embedding}
        for place, embedding in enumerate(embeddings)
    ]
    return json.dumps({"object": "list", "data": data, "model": "m", **more}).encode()


@pytest.mark.parametrize("encoding", list(Encoding))
@given(st.lists(st.lists(finite, min_size=2, max_size=5), min_size=1, max_size=3))
def test_what_is_written_is_read_bit_by_bit(encoding: Encoding, rows: list[list[float]]) -> None:
    """Signs of zeros, the smallest and the largest numbers too."""
    vectors = [np.array(row, np.float32) for row in rows]
    body = write_embeddings_reply(vectors, encoding=encoding, model='m "x"', tokens=7)
    read = read_embeddings_reply(body)
    assert [vector.tobytes() for vector in read.vectors] == [v.tobytes() for v in vectors]
    assert (read.places, read.model, read.tokens) == (tuple(range(len(rows))), 'm "x"', 7)


def test_the_form_is_openais() -> None:
    """Both encodings, field by field; floats with as many digits as they need."""
    vector = np.array([0.1, -2.0], np.float32)
    as_floats = write_embeddings_reply([vector], encoding=Encoding.FLOAT, model="m", tokens=3)
    assert as_floats == (
        b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2.0]}],'
        b'"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}'
    )
    in_base64 = write_embeddings_reply([vector], encoding=Encoding.BASE64, model="m", tokens=3)
    (item,) = json.loads(in_base64)["data"]
    assert base64.b64decode(item["embedding"]) == struct.pack("<2f", 0.1, -2.0)


def test_vectors_stay_with_the_places_that_the_server_gives_them() -> None:
    """Order is not for this module to mend."""
    body = json.loads(reply([1.0], [2.0]))
    body["data"].reverse()
    assert read_embeddings_reply(json.dumps(body).encode()).places == (1, 0)


def test_llama_cpp_says_the_encoding_of_each_vector() -> None:
    """It is no more than that."""
    body = json.loads(reply("AACAPw=="))
    body["data"][0]["encoding_format"] = "base64"
    (vector,) = read_embeddings_reply(json.dumps(body).encode()).vectors
    assert vector.tolist() == [1.0]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"usage": {"prompt_tokens": 4, "total_tokens": 5}}, 4),
        ({"usage": {"prompt_tokens": -1}}, None),
        ({"usage": {}}, None),
        ({"usage": None}, None),
        ({}, None),
    ],
)
def test_tokens_as_far_as_they_are_told(usage: dict[str, Any], tokens: int | None) -> None:
    """Some servers tell none."""
    assert read_embeddings_reply(reply([1.0], **usage)).tokens == tokens


@pytest.mark.parametrize(
    "body",
    [
        b'{"object":"list","data":[{"index":0,"embedding":[1],"sparse":{"3":1}}]}',
        b'{"object":"list","data":[{"embedding":[1]}]}',
        b'{"data":[{"index":0,"embedding":[[1,2],[3,4]]}]}',
        b'{"data":[{"index":0,"embedding":{"int8":[1]}}]}',
        b'[{"index":0,"embedding":[[1.0]]}]',
        b'{"embeddings":[[1]]}',
        b'"text"',
    ],
)
def test_other_forms_are_for_the_caller(body: bytes) -> None:
    """What says more than a vector, or is written otherwise."""
    with pytest.raises(ForeignReply):
        read_embeddings_reply(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        reply([1.0])[:-9],
        b'{"data":[{"index":0,"embedding":[NaN]}]}',
        reply([1.0, None]),
        reply([1.0, "x"]),
        b'{"data":[],"usage":%s%s}' % (b"[" * 5_000, b"]" * 5_000),
        reply("AAA"),
        reply("AAAA"),
        reply("AAAA AAAA"),
        b"\xff",
    ],
)
def test_no_vectors(body: bytes) -> None:
    """Cut off, not a number, no base64, no whole number of floats."""
    with pytest.raises(BrokenReply):
        read_embeddings_reply(body)


def test_a_number_beyond_32_bits_is_not_finite() -> None:
    """It is read without a warning; whoever checks vectors refuses it."""
    (vector,) = read_embeddings_reply(reply([1e300])).vectors
    assert np.isinf(vector).all()
