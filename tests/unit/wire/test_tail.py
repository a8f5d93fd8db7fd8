"""What a reply says it cost, read as it passes."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.entry import Usage
from stepwell.wire.tail import TAIL_BYTES, Tail

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 64},
}
COST = Usage(100, 7, 64)


def usage(*chunks: bytes) -> Usage | None:
    tail = Tail()
    for chunk in chunks:
        tail.feed(chunk)
    return tail.usage()


def event(**body: object) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"


def test_of_a_whole_answer() -> None:
    assert usage(orjson.dumps({"choices": [], "usage": USAGE})) == COST


def test_of_a_stream() -> None:
    events = [event(choices=[{"delta": {"content": "x"}}], usage=None) for _ in range(500)]
    assert usage(*events, event(choices=[], usage=USAGE), b"data: [DONE]\n\n") == COST


def test_of_llama_cpp() -> None:
    """Its timings come behind the usage, or in its place."""
    timings = {"cache_n": 60, "prompt_n": 40, "predicted_n": 7}
    assert usage(event(choices=[], timings=timings)) == Usage(100, 7, 60)
    assert usage(event(choices=[], usage=USAGE, timings=timings)) == COST


@given(st.integers(1, 40))
def test_however_it_is_cut(size: int) -> None:
    body = orjson.dumps({"choices": [{"text": "x" * TAIL_BYTES}], "usage": USAGE})
    assert usage(*[body[at : at + size] for at in range(0, len(body), size)]) == COST


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"usage":null}',
        b'{"usage":',
        b'{"usage": {"prompt_tokens": 1',
        b'"usage" is a word, {"x":1}',
        b'{"usage":{"prompt_tokens":"many"}}',
        b"\xff\xfe",
        b'{"usage":[{"prompt_tokens":3}]}',
    ],
)
def test_of_what_says_nothing(body: bytes) -> None:
    assert usage(body) is None


def test_not_of_what_the_model_says() -> None:
    """An answer that speaks of usage has its quotes escaped."""
    text = orjson.dumps({"usage": {"prompt_tokens": 9}}).decode()
    assert usage(orjson.dumps({"choices": [{"text": text}], "usage": USAGE})) == COST
    assert usage(orjson.dumps({"choices": [{"text": text}]})) is None


@given(st.binary(max_size=300))
def test_of_anything_without_an_error(body: bytes) -> None:
    usage(b'{"usage":{', body)
