"""Requests for vectors: what they ask for, and what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.errors import RequestError
from stepwell.wire.embeddings import (
    EmbeddingsRequest,
    Encoding,
    ForeignRequest,
    read_embeddings_request,
    write_embeddings_request,
)


def read(max_inputs: int = 100, **body: Any) -> EmbeddingsRequest | ForeignRequest:
    return read_embeddings_request({"model": "m", **body}, max_inputs=max_inputs)


def asked(**body: Any) -> EmbeddingsRequest:
    request = read(**body)
    assert isinstance(request, EmbeddingsRequest)
    return request


@pytest.mark.parametrize(
    ("given_input", "inputs"),
    [
        ("hi", ("hi",)),
        ("", ("",)),
        (["a", "b", "a"], ("a", "b", "a")),
        ([1, 2], ((1, 2),)),
        ([[1], [2, 3], []], ((1,), (2, 3), ())),
    ],
)
def test_all_forms_of_input(given_input: Any, inputs: tuple[Any, ...]) -> None:
    """A list of numbers is one text; what is sent on for all of them is what came."""
    request = asked(input=given_input, user="u", encoding_format="base64")
    assert request.inputs == inputs
    sent = json.loads(write_embeddings_request(request, request.inputs))
    assert sent == {"model": "m", "input": given_input, "user": "u", "encoding_format": "base64"}


def test_a_part_of_a_batch_is_sent_as_a_batch() -> None:
    """One text that is left of many is still a list, whatever a server makes of the difference."""
    request = asked(input=["a", "b"])
    assert json.loads(write_embeddings_request(request, ["b"])) == {"model": "m", "input": ["b"]}


def test_what_may_change_a_vector_is_told_apart_from_what_does_not() -> None:
    """Unknown fields are parameters in any order; the caller's name and encoding are none."""
    whose = {"user": "u", "safety_identifier": "s"}
    how = {"cache_salt": "c", "priority": 1, "request_id": "r"}
    plain = asked(input="x", **whose, **how, encoding_format="float", dimensions=3)
    assert (plain.parameters, plain.dimensions) == ("", 3)
    one = asked(input="x", truncate=True, task="query")
    other = asked(task="query", truncate=True, input="y")
    assert one.parameters == other.parameters == '{"task":"query","truncate":true}'


@pytest.mark.parametrize("given_encoding", [None, "float", "base64"])
def test_encodings(given_encoding: str | None) -> None:
    """Without one, numbers."""
    assert asked(input="x", encoding_format=given_encoding).encoding == (given_encoding or "float")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "no input"),
        ({"input": None, "messages": []}, "no input"),
        ({"input": [{"type": "image"}, "a"]}, "input is no text"),
        ({"input": {"text": "a"}}, "input is no text"),
        ({"input": "a", "encoding_format": "ubinary"}, "another encoding"),
    ],
)
def test_what_other_servers_take_is_left_to_them(body: dict[str, Any], reason: str) -> None:
    """It is sent on as it is."""
    assert read(**body) == ForeignRequest("m", reason)


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"model": ""}, "model", "''"),
        ({"model": 3}, "model", "3"),
        ({"input": []}, "input", "0 items; allowed: 1 to 3"),
        ({"input": ["a"] * 4}, "input", "4 items; allowed: 1 to 3"),
        ({"input": ["a", [1]]}, "input[1]", "[1]"),
        ({"input": [[1], "a"]}, "input[1]", "'a'"),
        ({"input": [1, "a"]}, "input[1]", "'a'"),
        ({"input": ["a", None]}, "input[1]", "None"),
        ({"input": [None]}, "input[0]", "None"),
        ({"input": [[1], [True]]}, "input[1][0]", "True"),
        ({"input": [1, -1]}, "input[1]", "-1; allowed: an integer from 0 to 4294967295"),
        ({"input": [1, 2**32]}, "input[1]", "4294967296"),
        ({"input": [1.5]}, "input[0]", "1.5"),
        ({"input": 7}, "input", "7"),
        ({"input": "a", "dimensions": 0}, "dimensions", "0; allowed: an integer from 1 to 65536"),
        ({"input": "a", "dimensions": True}, "dimensions", "True"),
        ({"input": "a", "dimensions": "8"}, "dimensions", "'8'"),
        ({"input": "a", "encoding_format": 3}, "encoding_format", "3"),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, Any], param: str, said: str) -> None:
    """The field, its value and what is allowed."""
    with pytest.raises(RequestError) as caught:
        read(max_inputs=3, **body)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert f"'{param}'" in str(caught.value)
    assert said in str(caught.value)


def test_a_long_value_is_shown_in_part() -> None:
    """A megabyte of a mistake is no help."""
    with pytest.raises(RequestError) as caught:
        read(input="a", dimensions="9" * 1_000_000)
    assert len(str(caught.value)) < 200


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(json_values, json_values, json_values)
def test_any_body_is_read_or_refused(given_input: Any, encoding: Any, dimensions: Any) -> None:
    """Nothing else comes out; what is read goes on as it came."""
    body = {"input": given_input, "encoding_format": encoding, "dimensions": dimensions}
    try:
        request = read(**body)
    except RequestError:
        return
    if isinstance(request, EmbeddingsRequest):
        sent = json.loads(write_embeddings_request(request, request.inputs))
        assert sent == {"model": "m", **body}
        assert request.encoding in Encoding
