"""Types of the fields we know, and the shape a request asks for."""

from typing import Any, get_type_hints

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming as ChatParams
from openai.types.completion_create_params import (
    CompletionCreateParamsStreaming as CompletionsParams,
)
from openai.types.responses.response_create_params import (
    ResponseCreateParamsStreaming as ResponsesParams,
)

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint, Form
from stepwell.wire import request
from stepwell.wire.request import check_request, shape_of
from stepwell.wire.shape import Shape

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
COMPLETIONS: dict[str, Any] = {"model": "m", "prompt": "hi"}
RESPONSES: dict[str, Any] = {"model": "m", "input": "hi"}


def refusal(endpoint: Endpoint, body: dict[str, Any]) -> RequestError:
    """Return the error for a request that must be refused."""
    with pytest.raises(RequestError) as caught:
        check_request(endpoint, body)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("change", "param", "said"),
    [
        ({"model": ""}, "model", "'model' must be non-empty."),
        ({"model": 5}, "model", "'model' must be a string, not an integer."),
        ({"model": None}, "model", "'model' must be a string, not null."),
        ({"messages": []}, "messages", "'messages' must be non-empty."),
        ({"messages": {}}, "messages", "'messages' must be an array, not an object."),
        ({"messages": ["hi"]}, "messages[0]", "'messages[0]' must be an object, not a string."),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "'messages[0].role' is missing."),
        ({"stream": "yes"}, "stream", "'stream' must be a boolean or null, not a string."),
        ({"stream": 1}, "stream", "'stream' must be a boolean or null, not an integer."),
        ({"n": "2"}, "n", "'n' must be a number or null, not a string."),
        ({"n": 1.5}, "n", "'n' must be an integer."),
        ({"n": True}, "n", "'n' must be a number or null, not a boolean."),
        ({"temperature": True}, "temperature", "a number or null, not a boolean."),
        ({"tools": [1]}, "tools[0]", "'tools[0]' must be an object, not an integer."),
        ({"stop": [1]}, "stop[0]", "'stop[0]' must be a string, not an integer."),
        ({"stream_options": {"include_usage": "x"}}, "stream_options.include_usage", "boolean"),
        ({"logit_bias": {"50256": "x"}}, "logit_bias[...]", "must be a number"),
        ({"metadata": "x"}, "metadata", "'metadata' must be an object or null, not a string."),
    ],
)
def test_wrong_types_in_chat(change: dict[str, Any], param: str, said: str) -> None:
    """A known field of the wrong type is refused, by its dotted path and in plain words."""
    error = refusal(Endpoint.CHAT, CHAT | change)
    assert error.param == param
    assert said in str(error)


def test_wrong_types_in_messages() -> None:
    """Content parts must be objects with a string `type`; the path says which one is not."""
    parts: list[Any] = [{"type": "text", "text": "a"}, {"text": "b"}]
    error = refusal(Endpoint.CHAT, CHAT | {"messages": [{"role": "user", "content": parts}]})
    assert (error.param, error.code) == ("messages[0].content[1].type", "missing_field")
    parts[1] = {"type": 3}
    error = refusal(Endpoint.CHAT, CHAT | {"messages": [{"role": "user", "content": parts}]})
    assert (error.param, error.code) == ("messages[0].content[1].type", "invalid_type")


@pytest.mark.parametrize(
    ("endpoint", "required"),
    [
        (Endpoint.CHAT, ["model", "messages"]),
        (Endpoint.COMPLETIONS, ["model"]),
        (Endpoint.RESPONSES, ["model"]),
    ],
)
def test_required_fields(endpoint: Endpoint, required: list[str]) -> None:
    """Without a model, or chat without messages, there is nothing to ask for."""
    for name in required:
        body = {key: value for key, value in CHAT.items() if key != name}
        error = refusal(endpoint, body)
        assert (error.param, error.code) == (name, "missing_field")


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.CHAT, CHAT | {"temperature": 1, "n": 1.0, "max_tokens": 10**18, "stop": "x"}),
        (Endpoint.CHAT, CHAT | {"temperature": -7.5, "n": -3, "top_p": 99}),
        (Endpoint.CHAT, CHAT | {"tool_choice": {"type": "function"}, "tools": [{}]}),
        (Endpoint.CHAT, CHAT | {"made_up_tomorrow": [1, {"a": object}], "guided_json": {}}),
        (
            Endpoint.CHAT,
            CHAT
            | {
                "messages": [
                    {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
                    {"role": "tool", "content": "x", "tool_call_id": "c"},
                    {"role": "wizard", "content": [{"type": "hologram", "data": 3}], "x": 1},
                    {"role": "user"},
                ]
            },
        ),
        (Endpoint.COMPLETIONS, COMPLETIONS | {"prompt": ["a", "b"], "logprobs": 5}),
        (Endpoint.COMPLETIONS, COMPLETIONS | {"prompt": [1, 2, 3]}),
        (Endpoint.COMPLETIONS, COMPLETIONS | {"prompt": [[1, 2], [3]], "echo": True}),
        (Endpoint.COMPLETIONS, {"model": "m"}),
        (Endpoint.RESPONSES, RESPONSES | {"input": [{"role": "user", "content": "hi"}]}),
        (Endpoint.RESPONSES, RESPONSES | {"conversation": "c", "tools": [{"type": "web_search"}]}),
    ],
)
def test_accepted(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """Ranges are the model server's business, and unknown fields nobody's."""
    check_request(endpoint, body)


def test_null_means_not_given() -> None:
    """`null` passes for every field that is not required."""
    for endpoint, params, body in (
        (Endpoint.CHAT, ChatParams, CHAT),
        (Endpoint.COMPLETIONS, CompletionsParams, COMPLETIONS),
        (Endpoint.RESPONSES, ResponsesParams, RESPONSES),
    ):
        check_request(endpoint, dict.fromkeys(get_type_hints(params)) | body)


@pytest.mark.parametrize(
    ("struct", "params"),
    [
        (request._Chat, ChatParams),
        (request._Completions, CompletionsParams),
        (request._Responses, ResponsesParams),
    ],
)
def test_known_fields_are_the_api_s(struct: type[request._Common], params: type[object]) -> None:
    """Every field we check is one that the endpoint has, so none is misspelt."""
    only_ours = {"metadata", "safety_identifier"}  # we read it, or it came to all endpoints later
    assert set(struct.__struct_fields__) - only_ours <= set(get_type_hints(params))


@pytest.mark.parametrize(
    ("endpoint", "change", "shape"),
    [
        (Endpoint.CHAT, {}, Shape(Form.JSON)),
        (Endpoint.CHAT, {"stream": False}, Shape(Form.JSON)),
        (Endpoint.CHAT, {"stream": None}, Shape(Form.JSON)),
        (Endpoint.CHAT, {"stream_options": {"include_usage": False}}, Shape(Form.JSON)),
        (Endpoint.CHAT, {"stream": True}, Shape(Form.SSE, include_usage=False)),
        (
            Endpoint.COMPLETIONS,
            {"stream": True, "stream_options": None},
            Shape(Form.SSE, include_usage=False),
        ),
        (
            Endpoint.CHAT,
            {"stream": True, "stream_options": {"include_usage": True}},
            Shape(Form.SSE, include_usage=True),
        ),
        (Endpoint.RESPONSES, {"stream": True}, Shape(Form.SSE, include_usage=True)),
        (Endpoint.RESPONSES, {}, Shape(Form.JSON)),
    ],
)
def test_shape(endpoint: Endpoint, change: dict[str, Any], shape: Shape) -> None:
    """A stream has usage if asked for; JSON and responses always have it."""
    assert shape_of(endpoint, {"model": "m"} | change) == shape
