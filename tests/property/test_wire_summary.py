"""What holds for answers of any bytes and any JSON."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.core.entry import Answer
from stepwell.core.names import Endpoint, Form
from stepwell.wire.render import render
from stepwell.wire.shape import Shape
from stepwell.wire.summary import summarise

NAMES = st.sampled_from(
    [
        *("choices", "message", "delta", "content", "tool_calls", "function", "arguments", "index"),
        *("text", "logprobs", "tokens", "bytes", "token", "finish_reason", "usage", "type", "id"),
        *("prompt_tokens", "output", "status", "response", "summary", "incomplete_details", "role"),
        *("function_call", "annotations", "refusal", "error", "custom", "input"),
    ]
)
WORDS = st.sampled_from(
    ["stop", "completed", "message", "reasoning", "output_text", "refusal", "function_call"]
)
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-1, 1) | WORDS
ODD = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
OBJECTS = st.dictionaries(NAMES, ODD, max_size=6)
KINDS = st.sampled_from(["response.completed", "response.failed", "error", "chunk"])


def stream(chunks: list[tuple[str, Any]]) -> bytes:
    """Return a stream of the given data, each with a type."""
    lines = [json.dumps(data | {"type": kind}) for kind, data in chunks]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


BODIES = st.one_of(
    OBJECTS.map(lambda body: json.dumps(body).encode()),
    st.lists(st.tuples(KINDS, OBJECTS), max_size=4).map(stream),
    st.binary(max_size=40),
)


@settings(deadline=None)
@given(st.sampled_from(list(Endpoint)), st.sampled_from(list(Form)), BODIES)
def test_no_answer_is_too_odd(endpoint: Endpoint, form: Form, body: bytes) -> None:
    """Any bytes can be summed up, and rendered or not in every shape, without an error."""
    answer = Answer(form, body)
    summarise(endpoint, answer)
    for shape in (Shape(Form.JSON), Shape(Form.SSE), Shape(Form.SSE, include_usage=False)):
        rendered = render(endpoint, answer, shape)
        assert rendered is None or isinstance(rendered, bytes)
