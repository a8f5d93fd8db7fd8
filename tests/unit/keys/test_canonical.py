"""Bodies of the same meaning have the same canonical form, others do not."""

from typing import Any

import pytest

from stepwell.core.errors import RequestError
from stepwell.core.names import Endpoint
from stepwell.keys.canonical import Dialect, KeyRules, canonical_body
from stepwell.keys.text import TextStep

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]


def canonical(body: dict[str, Any], endpoint: Endpoint = Endpoint.CHAT, **rules: Any) -> bytes:
    return canonical_body(endpoint, body, KeyRules(**rules))


def test_form() -> None:
    """The canonical form is compact JSON with sorted keys."""
    assert canonical({"messages": [{"role": "user", "content": "hi"}], "model": "m"}) == (
        b'{"messages":[{"content":"hi","role":"user"}],"model":"m"}'
    )


@pytest.mark.parametrize(
    "extra",
    [
        {"stream": True},
        {"stream": False},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream_options": None},
        {"temperature": 1},
        {"temperature": 1.0},
        {"top_p": 1.0, "n": 1, "presence_penalty": 0, "frequency_penalty": 0.0},
        {"seed": None, "stop": None, "tools": None, "tool_choice": None},
        {"tool_choice": "none"},
        {"response_format": {"type": "text"}},
        {"logprobs": False},
    ],
)
def test_what_says_nothing_is_left_out(extra: dict[str, Any]) -> None:
    """Transport fields and documented defaults do not make another request."""
    assert canonical(CHAT | extra) == canonical(CHAT)


@pytest.mark.parametrize(
    "extra",
    [
        {"temperature": 0.9},
        {"temperature": 0},
        {"n": 2},
        {"seed": 0},
        {"stop": ["x"]},
        {"tools": TOOLS},
        {"tools": []},
        {"tool_choice": "required"},
        {"response_format": {"type": "json_object"}},
        {"logprobs": True},
        {"logprobs": 0},
        {"n": True},
        {"invented_tomorrow": 1},
        {"invented_tomorrow": None},
        {"user": "alice"},
        {"stream_options": {"include_usage": True, "include_obfuscation": False}},
        {"max_tokens": 5},
        {"max_completion_tokens": 5},
    ],
)
def test_what_says_something_is_kept(extra: dict[str, Any]) -> None:
    """Anything else, known or not, makes another request."""
    assert canonical(CHAT | extra) != canonical(CHAT)


def test_tool_choice_auto_is_the_default_where_there_are_tools() -> None:
    """With tools, ``auto`` says nothing and ``none`` says something."""
    with_tools = CHAT | {"tools": TOOLS}
    assert canonical(with_tools | {"tool_choice": "auto"}) == canonical(with_tools)
    assert canonical(with_tools | {"tool_choice": "none"}) != canonical(with_tools)
    assert canonical(with_tools | {"parallel_tool_calls": True}) == canonical(with_tools)


def test_an_engine_has_its_own_sampling_defaults() -> None:
    """vLLM reads them from the model's files: ``temperature: 1`` is then a choice."""
    rules: dict[str, Any] = {"dialect": Dialect.ENGINE}
    assert canonical(CHAT | {"temperature": 1}, **rules) != canonical(CHAT, **rules)
    assert canonical(CHAT | {"n": 1}, **rules) == canonical(CHAT, **rules)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (0, -0.0), (100, 1e2), (0.1, 1e-1)],
)
def test_numbers_are_spelled_one_way(one: float, other: float) -> None:
    """At any depth."""
    assert canonical(CHAT | {"x": {"y": [one]}}) == canonical(CHAT | {"x": {"y": [other]}})


def test_numbers_that_differ_stay_apart() -> None:
    """Big integers are not taken through a float; true is not one."""
    assert canonical(CHAT | {"seed": 2**53}) != canonical(CHAT | {"seed": 2**53 + 1})
    assert canonical(CHAT | {"x": [True]}) != canonical(CHAT | {"x": [1]})


def test_one_stop_sequence_is_a_list_of_one() -> None:
    """The API takes either."""
    assert canonical(CHAT | {"stop": "x"}) == canonical(CHAT | {"stop": ["x"]})


def message(role: str, content: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": role, "content": content}]}


@pytest.mark.parametrize("role", ["system", "developer", "user"])
def test_prose_is_normalised(role: str) -> None:
    """In texts that people and products write, as a string or as parts."""
    assert canonical(message(role, " hi\r\n")) == canonical(message(role, "hi"))
    parts = [{"type": "text", "text": " hi\r\n"}]
    assert canonical(message(role, parts)) == canonical(
        message(role, [{"type": "text", "text": "hi"}])
    )


@pytest.mark.parametrize("role", ["assistant", "tool", "unheard-of"])
def test_other_roles_are_compared_as_they_are(role: str) -> None:
    """A prefix to be continued, and data, keep every blank."""
    assert canonical(message(role, " hi")) != canonical(message(role, "hi"))


def test_a_raw_prompt_is_compared_as_it_is() -> None:
    """A completion continues from the last blank."""
    one, other = {"model": "m", "prompt": "hi "}, {"model": "m", "prompt": "hi"}
    assert canonical(one, Endpoint.COMPLETIONS) != canonical(other, Endpoint.COMPLETIONS)


def test_responses_input_is_normalised() -> None:
    """As a string, and as items."""
    one, other = {"model": "m", "input": " hi "}, {"model": "m", "input": "hi"}
    assert canonical(one, Endpoint.RESPONSES) == canonical(other, Endpoint.RESPONSES)
    items = [{"role": "user", "content": [{"type": "input_text", "text": "hi\r\n"}]}]
    tidy = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    assert canonical({"model": "m", "input": items}, Endpoint.RESPONSES) == canonical(
        {"model": "m", "input": tidy}, Endpoint.RESPONSES
    )


def test_ignored_fields_are_left_out() -> None:
    """What the operator declares without effect does not make another request."""
    rules: dict[str, Any] = {"ignored_fields": frozenset({"user"})}
    assert canonical(CHAT | {"user": "a"}, **rules) == canonical(CHAT | {"user": "b"}, **rules)


def test_rules_that_differ_have_fingerprints_that_differ() -> None:
    """So that two configurations of one store never share an entry."""
    rules = [
        KeyRules(),
        KeyRules(dialect=Dialect.ENGINE),
        KeyRules(text_steps=()),
        KeyRules(text_steps=(TextStep.TRIM, TextStep.FOLD)),
        KeyRules(ignored_fields=frozenset({"a", "b"})),
        KeyRules(ignored_fields=frozenset({"ab"})),
    ]
    assert len({rule.fingerprint() for rule in rules}) == len(rules)


@pytest.mark.parametrize("value", ["\ud800", float("nan"), float("inf"), 2**64, {1: 2}, object()])
def test_what_json_cannot_say_is_the_callers_error(value: Any) -> None:
    """Nothing is guessed, and nothing collides with null."""
    with pytest.raises(RequestError):
        canonical(CHAT | {"x": value})


@pytest.mark.parametrize("value", [None, 1, "x", [None], [1], {}, {"content": 3}])
def test_odd_messages_are_kept_as_they_are(value: Any) -> None:
    """The canonical form never fails on a body the wire would refuse."""
    for endpoint in Endpoint:
        field = "input" if endpoint is Endpoint.RESPONSES else "messages"
        assert canonical({"model": "m", field: value}, endpoint)
