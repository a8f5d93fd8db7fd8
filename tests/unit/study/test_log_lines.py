"""Lines of logs, in all shapes, and from people who mean no good."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.entry import Usage
from stepwell.study.analysis.shapes import GatewayLine, LoggedRequest, NoRequest, read_line

TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
BODY = {"model": "m", "messages": TURNS, "temperature": 0.5}


def read(line: object) -> LoggedRequest:
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    found = read_line(raw, "tenant")
    assert isinstance(found, LoggedRequest), found
    return found


@pytest.mark.parametrize(
    "line",
    [
        BODY,
        {"body": BODY},
        {"request": BODY},
        {"request": {"method": "POST", "body": BODY}},
        {"request_body": json.dumps(BODY)},
        {"ts": 1, "request": {"messages": TURNS, "temperature": 0.5}, "model": "m"},
        {**BODY, "timestamp": "2026-01-01T00:00:00Z", "trace_id": "17", "user_agent": "x"},
        {**BODY, "id": "chatcmpl-1", "usage": {"prompt_tokens": 3}},
    ],
)
def test_the_body_is_found(line: object) -> None:
    """And what a log puts beside it is not in it, or equal requests would differ."""
    assert read(line).body == BODY


def test_a_body_alone_keeps_what_nobody_here_has_heard_of() -> None:
    assert read({**BODY, "new_parameter": 1}).body == {**BODY, "new_parameter": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"how are you",
        b'{"prompt": "how are you"}',
        b'{"text":"how are you","x":1}',
        b'"how are you"',
    ],
)
def test_plain_prompts_become_questions(line: bytes) -> None:
    assert read(line).body["messages"] == [{"role": "user", "content": "how are you"}]


def test_a_prompt_with_parameters_is_a_completion() -> None:
    body = {"model": "m", "prompt": "once upon", "max_tokens": 5}
    assert read(body).body == body


def test_plain_text_that_looks_like_json() -> None:
    assert read(b"[1, 2").body["messages"][0]["content"] == "[1, 2"


def test_an_answer_at_the_end_of_a_conversation_is_taken_off() -> None:
    line = {"messages": [*TURNS, {"role": "assistant", "content": "hello"}]}
    found = read(line)
    assert (found.body["messages"], found.answer_bytes) == (TURNS, 5)
    with_response = {"body": line, "response": {"choices": []}}
    assert read(with_response).body["messages"] == line["messages"]


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"ts": 1_700_000_000}, 1_700_000_000),
        ({"timestamp": 1_700_000_000_123}, 1_700_000_000.123),
        ({"time": 1_700_000_000_000_000}, 1_700_000_000),
        ({"ts": 1_700_000_000_000_000_000}, 1_700_000_000),
        ({"ts": "1700000000.5"}, 1_700_000_000.5),
        ({"@timestamp": "2023-11-14T22:13:20Z"}, 1_700_000_000),
        ({"created_at": "2023-11-14T23:13:20+01:00"}, 1_700_000_000),
        ({"time": "2023-11-14 22:13:20"}, 1_700_000_000),
        ({"t_ms": 1500}, 1.5),
        ({"response": {"created": 1_700_000_000}}, 1_700_000_000),
        ({"ts": "yesterday"}, None),
        ({"ts": -5}, None),
        ({"ts": 1e300}, None),
        ({"ts": "9" * 5_000}, None),
        ({"ts": True}, None),
        ({"ts": "0001-01-01T00:00:00+23:59"}, None),
        ({}, None),
    ],
)
def test_times(fields: dict[str, Any], at: float | None) -> None:
    found = read({"body": BODY, **fields}).at
    assert found == (None if at is None else pytest.approx(at))


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"latency_ms": 1500}, 1.5),
        ({"latency": 1.5}, 1.5),
        ({"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:00:01.5Z"}, 1.5),
        ({"latency": -1}, None),
        ({"latency": "slow"}, None),
        ({"duration": 1e12}, None),
    ],
)
def test_durations(fields: dict[str, Any], seconds: float | None) -> None:
    assert read({"body": BODY, **fields}).seconds == seconds


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, Usage(3, 4)),
        ({"response": {"usage": {"input_tokens": 3, "output_tokens": 4}}}, Usage(3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(3, 4)),
        ({"usage": {"prompt_tokens": -3}}, None),
        ({"usage": {"prompt_tokens": "3"}}, None),
        ({"usage": {"prompt_tokens": 10**30}}, None),
        ({"usage": [1]}, None),
    ],
)
def test_tokens(fields: dict[str, Any], usage: Usage | None) -> None:
    assert read({"body": BODY, **fields}).usage == usage


def test_failures_and_tenants() -> None:
    assert read({"body": BODY, "status": 500}).failed
    assert read({"body": BODY, "error": {"message": "no"}}).failed
    assert not read({"body": BODY, "status": 200, "error": None}).failed
    assert read({"body": BODY, "tenant": "team-a"}).tenant == "team-a"
    assert read({"body": BODY, "tenant": ["x"]}).tenant == ""


def test_the_gateways_own_log_has_no_words() -> None:
    line = {"time": "2026-01-01T00:00:00Z", "event": "request", "result": "hit", "trail": "exact"}
    assert read_line(json.dumps(line).encode(), "tenant") == GatewayLine("hit")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (None, "too long"),
        (b'{"a": ', "not JSON"),
        (b'{"a": 1}', "no request in it"),
        (b"[1]", "no request in it"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"body": {"messages": 7}}', "no request in it"),
        (b'{"body": "{"}', "no request in it"),
        (b"[" * 100_000 + b"]" * 100_000, None),
    ],
)
def test_bad_lines_are_told_apart(line: bytes | None, why: str | None) -> None:
    found = read_line(line, "tenant")
    assert found == NoRequest(why) if why else found is not None


def test_blank_lines_are_nothing() -> None:
    assert read_line(b"  ", "tenant") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                "body request response messages prompt input ts t_ms usage latency role content"
                " prompt_tokens status choices message error tenant model".split()
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(JSON)
def test_no_line_breaks_the_reading(value: Any) -> None:
    read_line(json.dumps(value).encode(), "tenant")


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reading(line: bytes) -> None:
    read_line(line, "tenant")
