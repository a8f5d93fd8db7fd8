"""The request by which a model server reads a conversation up to its last answer."""

from typing import Any

import orjson
import pytest

from stepwell.core.entry import Answer
from stepwell.core.names import Form
from stepwell.testing import fake_answers
from stepwell.wire.next_turn import NOT_SAID_YET, next_turn

ASKED: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "stream": True,
    "seed": 4,
    "max_tokens": 700,
}
SAID = fake_answers.answer_to(ASKED, text="Hello there!")


def sse(events: Any) -> bytes:
    lines = [b"data: " + orjson.dumps(event) + b"\n\n" for event in events]
    return b"".join(lines) + b"data: [DONE]\n\n"


WHOLE = Answer(Form.JSON, orjson.dumps(fake_answers.chat_json(SAID)))
STREAM = Answer(Form.SSE, sse(fake_answers.chat_events(SAID)))


@pytest.mark.parametrize("answer", [WHOLE, STREAM])
def test_goes_on_where_the_answer_ends(answer: Answer) -> None:
    body = next_turn(orjson.dumps(ASKED), answer)
    assert body is not None
    turn = orjson.loads(body)
    assert turn.pop("messages") == [
        *ASKED["messages"],
        {"role": "assistant", "content": "Hello there!"},
        NOT_SAID_YET,
    ]
    assert turn == {"model": "m", "tools": ASKED["tools"], "max_tokens": 1, "temperature": 0}


def test_behind_a_tool_call_its_result_comes() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    answer = Answer(Form.JSON, orjson.dumps({"choices": [{"message": message}]}))
    body = next_turn(orjson.dumps(ASKED), answer)
    assert body is not None
    assert orjson.loads(body)["messages"][-1] == {"role": "assistant", "tool_calls": calls}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (b"[]", WHOLE),
        (b"{", WHOLE),
        (b'{"messages": "none"}', WHOLE),
        (orjson.dumps(ASKED), Answer(Form.JSON, b"{")),
        (orjson.dumps(ASKED), Answer(Form.JSON, b"[]")),
        (orjson.dumps(ASKED), Answer(Form.JSON, b'{"choices":[{"message":{"content":""}}]}')),
        (orjson.dumps(ASKED), Answer(Form.JSON, b'{"choices":[{},{}]}')),
        (orjson.dumps(ASKED), Answer(Form.SSE, b"data: {}\n\n")),
    ],
)
def test_none_where_it_cannot_be_told(asked: bytes, answer: Answer) -> None:
    assert next_turn(asked, answer) is None
