"""Request bodies: what is refused, and what comes out exactly as it went in."""

import json
import sys
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.errors import RequestError
from stepwell.wire.body import MAX_DEPTH, dump_body, parse_body


def complaint(raw: bytes) -> str:
    """Return what is said about a body that must be refused."""
    with pytest.raises(RequestError) as caught:
        parse_body(raw)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "it is empty"),
        (b" \n\t", "it is empty"),
        (b'{"model":"\xff"}', "byte 10 is not UTF-8"),
        (b'{"model":"\xed\xa0\x80"}', "byte 10 is not UTF-8"),
        (b'{"model":', "line 1 column 10"),
        (b'{"model":"m"} x', "line 1 column 15"),
        (b'{"model":"m",}', "line 1 column"),
        (b'\xef\xbb\xbf{"model":"m"}', "line 1 column 1"),
        (b'{"model":"a\x01b"}', "line 1 column 12"),
        (b"[1,2]", "it must be an object"),
        (b"null", "it must be an object"),
        (b'"text"', "it must be an object"),
        (b'{"temperature":NaN}', "NaN is not JSON"),
        (b'{"temperature":-Infinity}', "-Infinity is not JSON"),
        (b'{"seed":18446744073709551616}', "integer 18446744073709551616 does not fit"),
        (b'{"seed":-9223372036854775809}', "integer -9223372036854775809 does not fit"),
        (b'{"seed":' + b"9" * 10_000 + b"}", "does not fit into 64 bits"),
        (b'{"temperature":1e400}', "number 1e400 does not fit"),
        (b'{"temperature":-1e400}', "number -1e400 does not fit"),
        (b'{"seed":007}', "line 1 column"),
    ],
)
def test_refused(raw: bytes, said: str) -> None:
    """A body that is not one strict JSON object is refused, with the reason."""
    assert said in complaint(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","model":"a"}',
        b'{"messages":[{"x":{"model":1,"y":2,"model":3}}]}',
        b'{"model":1,"mod\\u0065l":2}',
    ],
)
def test_repeated_keys(raw: bytes) -> None:
    """A key given twice in an object, at any depth and however written, is refused by name."""
    assert "'model' is given twice" in complaint(raw)


def test_same_key_in_two_objects() -> None:
    """The same key in different objects is no repetition."""
    assert parse_body(b'{"a":{"x":1},"b":{"x":1}}') == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"model":"\ud800"}',
        rb'{"model":"\uDC00 tail"}',
        rb'{"model":"\ude00\ud83d"}',
        rb'{"a":[{"\uD83d":1}]}',
    ],
)
def test_lone_surrogates(raw: bytes) -> None:
    """Half of a surrogate pair is no text, in a value or in a key."""
    complaint(raw)


def test_text_that_looks_like_a_surrogate() -> None:
    """Pairs are text, and so is an escaped backslash before `ud800`."""
    assert parse_body(rb'{"a":"\ud83d\ude00","b":"\\ud800"}') == {"a": "😀", "b": "\\ud800"}


def nested(levels: int, opening: bytes, closing: bytes) -> bytes:
    """Return a body of ``levels`` levels, the outermost an object."""
    return b'{"a":' + opening * (levels - 1) + b"1" + closing * (levels - 1) + b"}"


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth(opening: bytes, closing: bytes) -> None:
    """Nesting is allowed up to the bound and not beyond."""
    assert "a" in parse_body(nested(MAX_DEPTH, opening, closing))
    assert "nested deeper than 64" in complaint(nested(MAX_DEPTH + 1, opening, closing))


@pytest.mark.parametrize("levels", [1_000, 100_000])
def test_far_too_deep(levels: int) -> None:
    """Nesting far over the bound is refused without using up the stack."""
    complaint(nested(levels, b"[", b"]"))
    complaint(b'{"a":' + b"[" * levels)
    assert sys.getrecursionlimit() >= 1_000


def test_many_brackets_are_not_deep() -> None:
    """It is the depth that is bounded, not the number of objects, nor brackets in texts."""
    body = {"a": [[index] for index in range(1_000)], "b": "[" * 1_000}
    assert parse_body(dump_body(body)) == body


def test_integers_are_exact() -> None:
    """Integers of 64 bits come out as they went in, signed and unsigned."""
    body = {"a": 2**64 - 1, "b": -(2**63), "c": 2**53 + 1}
    parsed = parse_body(b'{"a":18446744073709551615,"b":-9223372036854775808,"c":9007199254740993}')
    assert parsed == body
    assert all(isinstance(value, int) for value in parsed.values())
    assert parse_body(dump_body(body)) == body


def test_integers_and_floats_are_told_apart() -> None:
    """`1` stays an integer and `1.0` a float."""
    parsed = parse_body(b'{"a":1,"b":1.0,"c":1e0}')
    assert [type(value) for value in parsed.values()] == [int, float, float]


def test_dump_is_compact_utf8() -> None:
    """A body is written without white space, in UTF-8, keys in their order."""
    body: dict[str, Any] = {"z": "你好", "a": [1, 2.5, None, True]}
    assert dump_body(body) == '{"z":"你好","a":[1,2.5,null,true]}'.encode()


_NUMBERS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers(min_value=-(2**70), max_value=2**70).map(str),
    st.sampled_from(["-0", "-0.0", "1e2", "1.0", "1e400", "1E+2", "0.1", "NaN"]),
)
_STRINGS = st.one_of(
    st.text(max_size=4).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=4).map(json.dumps),
    st.sampled_from(['"a"', r'"\u0061"', r'"\/"', r'"\ud800"', '"\x7f"']),
)


def _objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.lists(st.tuples(_STRINGS, values), max_size=3)
    return members.map(lambda them: f"{{{','.join(f'{name}:{value}' for name, value in them)}}}")


_VALUES = st.recursive(
    st.one_of(_NUMBERS, _STRINGS, st.sampled_from(["true", "null", "[ ]"])),
    lambda values: st.one_of(
        _objects(values), st.lists(values, max_size=3).map(lambda them: f"[{','.join(them)}]")
    ),
    max_leaves=8,
)


def _outcome(raw: bytes) -> object:
    try:
        return repr(parse_body(raw))
    except RequestError as error:
        return str(error).partition(":")[0]


@given(text=_objects(_VALUES))
def test_the_short_way_reads_the_same(text: str) -> None:
    """A blank at the end keeps a body from the short way, which must not make a difference."""
    raw = text.encode(errors="surrogatepass")
    assert _outcome(raw) == _outcome(raw + b" ")


@given(text=_objects(_VALUES))
def test_what_is_read_is_all_there_was(text: str) -> None:
    """Whatever is accepted says the same to the model server as it did to us."""
    raw = text.encode(errors="surrogatepass")
    try:
        body = parse_body(raw)
    except RequestError:
        return
    assert orjson.loads(dump_body(body)) == orjson.loads(raw)
