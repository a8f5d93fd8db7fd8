"""Lines of a log, in the shapes that are common, as requests. Pure; no line makes it raise.

Read are: a request's body; an object with the body under ``body``, ``request`` or
``request_body`` (also as a string of JSON), and what else the log knows beside it; the same with
the body's fields at the top; plain prompts, as text or as ``{"prompt": ...}``; Stepwell's own log.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stepwell.core.entry import Usage
from stepwell.study.analysis.stamps import moment_of, seconds_of, usage_of
from stepwell.study.requests import MODEL

_BODIES = ("body", "request", "request_body", "requestBody", "payload")
_RESPONSES = ("response", "response_body", "responseBody", "completion")
_STATUSES = ("status", "status_code", "response_status")
_PROMPTS = ("prompt", "text", "question", "query")
_ASKS = ("messages", "prompt", "input")

_PARAMETERS = frozenset(
    (
        "model messages prompt input instructions suffix tools tool_choice functions function_call"
        " response_format text temperature top_p top_k min_p n max_tokens max_completion_tokens"
        " max_output_tokens stop seed presence_penalty frequency_penalty repetition_penalty"
        " logit_bias logprobs top_logprobs stream stream_options reasoning reasoning_effort"
        " parallel_tool_calls modalities audio prediction user store metadata cache service_tier"
        " verbosity web_search_options search_parameters plugins best_of echo"
        " previous_response_id conversation background include truncation chat_template_kwargs"
        " guided_json guided_regex guided_choice guided_grammar extra_body enable_thinking thinking"
    ).split()
)
"""Where a log has a body's fields at the top, among its own, these are the body's."""

_ONLY_IN_COMPLETIONS = frozenset(
    "max_tokens temperature top_p stop suffix n logprobs echo best_of seed stream".split()
)
"""With one of these a ``prompt`` is continued; without, it is a question somebody noted down."""

_MAX_NAME = 128


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request that a log tells of."""

    body: Mapping[str, Any]
    at: float | None
    """Seconds since the epoch, or since some other start; ``None``: the log does not say."""
    tenant: str
    """Whose it is; empty where the log does not say."""
    usage: Usage | None
    seconds: float | None
    """How long the model server took."""
    failed: bool
    """The model server did not answer with an answer."""
    answer_bytes: int = 0
    """Length of the answer's text, where the log has it; 0: it does not."""


@dataclass(frozen=True, slots=True)
class GatewayLine:
    """A line of Stepwell's own log, which has no words."""

    result: str


@dataclass(frozen=True, slots=True)
class NoRequest:
    """A line that is of no use."""

    why: str
    """Of a closed set."""


Told = LoggedRequest | GatewayLine | NoRequest


def read_line(line: bytes | None, tenant_field: str) -> Told | None:
    """Return what a line tells; ``None`` for a blank one.

    Args:
        line: Without its end; ``None`` for one that is too long.
        tenant_field: The field that says whose a request is.
    """
    if line is None:
        return NoRequest("too long")
    text = line.strip().removeprefix(b"\xef\xbb\xbf")
    if not text:
        return None
    return _json(text, tenant_field) if text[:1] in b'{["' else _plain(text)


def _json(text: bytes, tenant_field: str) -> Told:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        # A prompt may begin with a bracket or a quote; what begins as an object was to be one.
        return NoRequest("not JSON") if text[:1] == b"{" else _plain(text)
    if isinstance(value, dict):
        return _row(value, tenant_field)
    if isinstance(value, str) or (isinstance(value, list) and _are_messages(value)):
        return LoggedRequest(_chat(value), None, "", None, None, failed=False)
    return NoRequest("no request in it")


def _plain(text: bytes) -> Told:
    try:
        return LoggedRequest(_chat(text.decode()), None, "", None, None, failed=False)
    except UnicodeDecodeError:
        return NoRequest("not UTF-8")


def _row(row: dict[str, Any], tenant_field: str) -> Told:
    if row.get("event") == "request" and isinstance(row.get("trail"), str):
        return GatewayLine(str(row.get("result"))[:_MAX_NAME])
    if row.get("event") in ("degraded", "upstream_failed"):
        return GatewayLine(str(row["event"]))
    body = _body(row)
    if body is None:
        return NoRequest("no request in it")
    response = next((found for name in _RESPONSES if (found := _object(row.get(name)))), {})
    body, answer = _without_answer(body, has_response=bool(response))
    return LoggedRequest(
        body=body,
        at=_first_time(row, response),
        tenant=_tenant(row, tenant_field),
        usage=usage_of(row.get("usage"), response.get("usage"), row),
        seconds=seconds_of(row),
        failed=_has_failed(row, response),
        answer_bytes=len(answer or _answer_of(response)),
    )


def _body(row: dict[str, Any]) -> dict[str, Any] | None:
    for name in _BODIES:
        inner = _object(row.get(name))
        if inner and not _has_ask(inner):
            inner = _object(inner.get("body"))
        if inner and _has_ask(inner):
            return {"model": _model(row), **inner}
    if _has_ask(row) and not _is_noted_prompt(row):
        kept = {name: value for name, value in row.items() if name in _PARAMETERS}
        # A body alone may have parameters that nobody here has heard of; a log's line has more.
        return {"model": _model(row), **(kept if moment_of(row) is not None else _own(row))}
    for name in _PROMPTS:
        if isinstance(row.get(name), str):
            return _chat(row[name], _model(row))
    return None


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """Return a body without what a log has put beside it."""
    if any(name in row for name in ("usage", *_RESPONSES, "id", "request_id", "latency")):
        return {name: value for name, value in row.items() if name in _PARAMETERS}
    return row


def _has_ask(body: Mapping[str, Any]) -> bool:
    return any(isinstance(body.get(name), str | list) for name in _ASKS)


def _is_noted_prompt(row: Mapping[str, Any]) -> bool:
    return (
        isinstance(row.get("prompt"), str)
        and not ("messages" in row or "input" in row)
        and _ONLY_IN_COMPLETIONS.isdisjoint(row)
    )


def _without_answer(body: dict[str, Any], *, has_response: bool) -> tuple[dict[str, Any], str]:
    """Take the answer off the end of a conversation, where a log has put it there."""
    turns = body.get("messages")
    if has_response or not isinstance(turns, list) or len(turns) < 2:  # noqa: PLR2004
        return body, ""
    last = turns[-1]
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return body, ""
    content = last.get("content")
    return {**body, "messages": turns[:-1]}, content if isinstance(content, str) else " "


def _answer_of(response: Mapping[str, Any]) -> str:
    """Return the text of an answer, as far as it is where most answers have it."""
    choices = response.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return ""
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else choice.get("text")
    return content if isinstance(content, str) else ""


def _first_time(row: Mapping[str, Any], response: Mapping[str, Any]) -> float | None:
    found = moment_of(row)
    return moment_of(response) if found is None else found


def _tenant(row: Mapping[str, Any], field: str) -> str:
    value = row.get(field)
    return value[:_MAX_NAME] if isinstance(value, str) else ""


def _has_failed(row: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    for name in _STATUSES:
        status = row.get(name)
        if isinstance(status, int) and not isinstance(status, bool):
            return status != 200  # noqa: PLR2004  (HTTP's own number)
    return bool(row.get("error") or response.get("error"))


def _object(value: object) -> dict[str, Any]:
    """Return an object, also one that was written as a string of JSON; else an empty one."""
    if isinstance(value, str) and value[:1] == "{":
        try:
            value = orjson.loads(value)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return {}
    return value if isinstance(value, dict) else {}


def _model(row: Mapping[str, Any]) -> str:
    model = row.get("model")
    return model if isinstance(model, str) and model else MODEL


def _are_messages(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(turn, dict) and "role" in turn for turn in value)


def _chat(asked: str | list[Any], model: str = MODEL) -> dict[str, Any]:
    turns = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    return {"model": model, "messages": turns}
