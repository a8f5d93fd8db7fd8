"""What a request must look like for us to know what it asks for: types, never ranges."""

import re
from typing import Annotated, Any, assert_never

from msgspec import Meta, Struct, ValidationError, convert

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint, Form
from stepwell.wire.shape import Shape

_Name = Annotated[str, Meta(min_length=1)]
_Integer = Annotated[float, Meta(multiple_of=1)]
"""JSON knows one kind of number: ``1.0`` is the integer 1."""
_Object = dict[str, Any]


class _Part(Struct):
    type: str


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[_Object] | None = None
    function_call: _Object | None = None


class _StreamOptions(Struct):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class _Common(Struct, kw_only=True):
    model: _Name
    metadata: _Object | None = None
    safety_identifier: str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None


class _Sampling(_Common, kw_only=True):
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    max_tokens: _Integer | None = None
    n: _Integer | None = None
    presence_penalty: float | None = None
    seed: _Integer | None = None
    stop: str | list[str] | None = None


class _Chat(_Sampling, kw_only=True):
    messages: Annotated[list[_Message], Meta(min_length=1)]
    audio: _Object | None = None
    function_call: str | _Object | None = None
    functions: list[_Object] | None = None
    logprobs: bool | None = None
    max_completion_tokens: _Integer | None = None
    modalities: list[str] | None = None
    parallel_tool_calls: bool | None = None
    prediction: _Object | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    response_format: _Object | None = None
    service_tier: str | None = None
    store: bool | None = None
    tool_choice: str | _Object | None = None
    tools: list[_Object] | None = None
    top_logprobs: _Integer | None = None
    verbosity: str | None = None
    web_search_options: _Object | None = None


class _Completions(_Sampling, kw_only=True):
    prompt: str | list[str | int | list[int]] | None = None
    """Texts, tokens or lists of tokens; llama.cpp lets them be mixed."""
    best_of: _Integer | None = None
    echo: bool | None = None
    logprobs: _Integer | None = None
    suffix: str | None = None


class _Responses(_Common, kw_only=True):
    background: bool | None = None
    conversation: str | _Object | None = None
    include: list[str] | None = None
    input: str | list[_Object] | None = None
    instructions: str | None = None
    max_output_tokens: _Integer | None = None
    max_tool_calls: _Integer | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    prompt: _Object | None = None
    prompt_cache_key: str | None = None
    reasoning: _Object | None = None
    service_tier: str | None = None
    store: bool | None = None
    text: _Object | None = None
    tool_choice: str | _Object | None = None
    tools: list[_Object] | None = None
    top_logprobs: _Integer | None = None
    truncation: str | None = None


def check_request(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """Check the types of the fields we know; all others pass untouched.

    ``null`` passes for every field but ``model``, ``messages`` and a message's ``role``: the
    model server knows better than we do where it is allowed. Costs a few us per KB.

    Raises:
        RequestError: 400 ``invalid_type`` or ``missing_field``; ``param`` names the field.
    """
    try:
        convert(body, _struct(endpoint))
    except ValidationError as error:
        raise _request_error(str(error)) from None


def shape_of(endpoint: Endpoint, body: dict[str, Any]) -> Shape:
    """Return the shape a checked request asks for."""
    if body.get("stream") is not True:
        return Shape(Form.JSON)
    if endpoint is Endpoint.RESPONSES:
        return Shape(Form.SSE)  # its last event always carries the usage
    options = body.get("stream_options") or {}
    return Shape(Form.SSE, include_usage=options.get("include_usage") is True)


def _struct(endpoint: Endpoint) -> type[_Common]:
    match endpoint:
        case Endpoint.CHAT:
            return _Chat
        case Endpoint.COMPLETIONS:
            return _Completions
        case Endpoint.RESPONSES:
            return _Responses
        case _:
            assert_never(endpoint)


_PATH = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"^Object missing required field `(\w+)`")
_TYPES = re.compile(r"^Expected `([^`]+)`, got `([^`]+)`")
_WORDS = {
    "array": "an array",
    "bool": "a boolean",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a string",
}


def _request_error(complaint: str) -> RequestError:
    found = _PATH.search(complaint)
    param = found[1] if found else ""
    if missing := _MISSING.match(complaint):
        param = f"{param}.{missing[1]}" if param else missing[1]
        return RequestError(f"'{param}' is missing.", code="missing_field", param=param)
    return RequestError(
        f"'{param}' must be {_expectation(complaint)}.", code="invalid_type", param=param
    )


def _expectation(complaint: str) -> str:
    if types := _TYPES.match(complaint):
        allowed = " or ".join(_WORDS.get(name, name) for name in types[1].split(" | "))
        return f"{allowed}, not {_WORDS.get(types[2], types[2])}"
    return "an integer" if "multiple of" in complaint else "non-empty"
