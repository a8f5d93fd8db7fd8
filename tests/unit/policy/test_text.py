"""The words of a request, in each API's shapes and in odd ones."""

from typing import Any

import pytest

from stepwell.core.names import Endpoint
from stepwell.policy.text import (
    MAX_CHARACTERS,
    MAX_MESSAGES,
    has_more_than_text,
    last_user_text,
    system_text,
)


def message(role: str, content: object) -> dict[str, Any]:
    """Return one message."""
    return {"role": role, "content": content}


HI = message("user", "Hi")


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        (Endpoint.CHAT, {"messages": [message("user", "Hello")]}, "Hello"),
        (
            Endpoint.CHAT,
            {
                "messages": [
                    message("user", "One"),
                    message("assistant", "A"),
                    message("user", "Two"),
                ]
            },
            "Two",
        ),
        # What tools answered since is not the user's words.
        (Endpoint.CHAT, {"messages": [message("user", "One"), message("tool", "42")]}, "One"),
        (
            Endpoint.CHAT,
            {
                "messages": [
                    message(
                        "user",
                        [
                            {"type": "text", "text": "What is"},
                            {"type": "image_url", "image_url": {"url": "data:,"}},
                            {"type": "text", "text": "this?"},
                        ],
                    )
                ]
            },
            "What is\nthis?",
        ),
        (Endpoint.COMPLETIONS, {"prompt": "Once"}, "Once"),
        (Endpoint.COMPLETIONS, {"prompt": ["Once", "Twice"]}, "Once"),
        (Endpoint.COMPLETIONS, {"prompt": [1, 2, 3]}, ""),
        (Endpoint.COMPLETIONS, {"prompt": [[1, 2], [3]]}, ""),
        (Endpoint.COMPLETIONS, {}, ""),
        (Endpoint.RESPONSES, {"input": "Hello"}, "Hello"),
        (Endpoint.RESPONSES, {"input": [message("user", "Hello")]}, "Hello"),
        (
            Endpoint.RESPONSES,
            {"input": [message("user", [{"type": "input_text", "text": "Hello"}])]},
            "Hello",
        ),
        (Endpoint.RESPONSES, {"input": [{"type": "function_call_output", "output": "x"}]}, ""),
        # Not of this endpoint.
        (Endpoint.CHAT, {"input": "Hello", "prompt": "Hello"}, ""),
    ],
)
def test_last_user_text(endpoint: Endpoint, body: dict[str, Any], expected: str) -> None:
    """The user's last words are found in every shape the API knows."""
    assert last_user_text(endpoint, body) == expected


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        (Endpoint.CHAT, {"messages": [message("system", "Short."), HI]}, "Short."),
        (Endpoint.CHAT, {"messages": [message("developer", "A"), message("system", "B")]}, "A\nB"),
        (Endpoint.CHAT, {"messages": [HI]}, ""),
        (Endpoint.RESPONSES, {"instructions": "Be brief.", "input": "Hi"}, "Be brief."),
        (Endpoint.RESPONSES, {"instructions": "A", "input": [message("developer", "B")]}, "A\nB"),
        (Endpoint.COMPLETIONS, {"prompt": "Hi", "instructions": "A"}, ""),
    ],
)
def test_system_text(endpoint: Endpoint, body: dict[str, Any], expected: str) -> None:
    """What the application says to the model is found in every shape the API knows."""
    assert system_text(endpoint, body) == expected


@pytest.mark.parametrize("text", ["x" * MAX_CHARACTERS, "x" * (MAX_CHARACTERS + 1), "x" * 10**6])
def test_texts_are_cut(text: str) -> None:
    """Of a long text only the start is looked at, in one piece or in many."""
    cut = text[:MAX_CHARACTERS]
    assert last_user_text(Endpoint.COMPLETIONS, {"prompt": text}) == cut
    assert last_user_text(Endpoint.RESPONSES, {"input": text}) == cut
    assert last_user_text(Endpoint.CHAT, {"messages": [message("user", text)]}) == cut
    assert system_text(Endpoint.CHAT, {"messages": [message("system", text)]}) == cut
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": text}]
    joined = ("ab\n" + text)[:MAX_CHARACTERS]
    assert last_user_text(Endpoint.CHAT, {"messages": [message("user", parts)]}) == joined


def test_many_messages_are_not_all_looked_at() -> None:
    """The user is looked for among the last messages, the system among the first ones."""
    others = [message("assistant", "x")] * MAX_MESSAGES
    far = {"messages": [HI, *others, message("system", "Be brief.")]}
    near = {"messages": [message("system", "Be brief."), *others[1:], HI]}
    assert last_user_text(Endpoint.CHAT, far) == ""
    assert system_text(Endpoint.CHAT, far) == ""
    assert last_user_text(Endpoint.CHAT, near) == "Hi"
    assert system_text(Endpoint.CHAT, near) == "Be brief."


PICTURE = {"type": "image_url", "image_url": {"url": "data:,"}}


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.CHAT, {"messages": [HI], "tools": [{"type": "function"}]}),
        (Endpoint.CHAT, {"messages": [HI], "functions": [{"name": "f"}]}),
        (Endpoint.CHAT, {"messages": [message("user", [PICTURE])]}),
        (Endpoint.CHAT, {"messages": [message("user", [PICTURE]), message("user", "And now?")]}),
        (Endpoint.CHAT, {"messages": [HI, message("tool", "42")]}),
        (
            Endpoint.CHAT,
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}]},
        ),
        (Endpoint.CHAT, {"messages": [["odd"]]}),
        (Endpoint.RESPONSES, {"input": [{"type": "function_call", "name": "f"}]}),
        (Endpoint.RESPONSES, {"input": [message("user", [{"type": "input_file"}])]}),
        (Endpoint.RESPONSES, {"input": "Hi", "tools": [{"type": "function"}]}),
    ],
)
def test_more_than_text(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """Tools, what they were asked and answered, pictures and files are more than words."""
    assert has_more_than_text(endpoint, body)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.CHAT, {"messages": [message("system", "A"), HI]}),
        (Endpoint.CHAT, {"messages": [message("user", [{"type": "text", "text": "Hi"}])]}),
        (Endpoint.CHAT, {"messages": [message("assistant", "Hi")], "tools": []}),
        (Endpoint.RESPONSES, {"input": "Hi"}),
        (Endpoint.COMPLETIONS, {"prompt": "Hi"}),
    ],
)
def test_nothing_but_text(endpoint: Endpoint, body: dict[str, Any]) -> None:
    """A conversation in words is not more than text."""
    assert not has_more_than_text(endpoint, body)
