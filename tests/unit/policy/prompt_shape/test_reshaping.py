"""What the rewrites do to a request, and what they leave alone."""

from typing import Any

import pytest

from stepwell.core.names import Endpoint
from stepwell.policy.prompt_shape import reshaping
from stepwell.policy.prompt_shape.movable import movable_in
from stepwell.policy.prompt_shape.reshaping import (
    MAX_HEAD_CHARACTERS,
    MAX_HEAD_TEXTS,
    Reshaped,
    Rewrite,
    reshape,
    shape_identity,
)

Body = dict[str, Any]


def chat(system: Any, user: Any = "Hi", **members: Any) -> Body:
    turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return {"model": "m", "messages": turns, **members}


def texts(found: Reshaped) -> list[Any]:
    return [turn["content"] for turn in found.body["messages"]]


def note(said: str) -> str:
    return f"Hi\n\n[From the system prompt: {said}.]"


def rewritten(body: Body, *rules: Rewrite, endpoint: Endpoint = Endpoint.CHAT) -> Reshaped:
    return reshape(endpoint, body, rules or tuple(Rewrite))


@pytest.mark.parametrize(
    ("system", "left", "moved"),
    [
        (
            "Current time: 2026-03-02 09:00:00\nBe kind.",
            "Be kind.",
            "Current time: 2026-03-02 09:00:00",
        ),
        (
            "You are X. Current date: 2026-03-02. Be brief.",
            "You are X. Be brief.",
            "Current date: 2026-03-02",
        ),
        (
            "# A\n\nThe current time is 15:00 EST.\n\nBe kind",
            "# A\n\nBe kind",
            "The current time is 15:00 EST",
        ),
        ("Today is Monday, March 2, 2026.\nBe kind.", "Be kind.", "Today is Monday, March 2, 2026"),
        ("It is now 9:05 PM. Use 24 h.", "Use 24 h.", "It is now 9:05 PM"),
        ("**Current Date:** 2026-03-02\nBe kind", "Be kind", "**Current Date:** 2026-03-02"),
        ("- Current time: 1772442000\n- Be kind", "- Be kind", "Current time: 1772442000"),
        (
            "你是助手。当前时间：2026年3月2日 星期一 上午9点05分。请简短。",
            "你是助手。请简短。",
            "当前时间：2026年3月2日 星期一 上午9点05分",
        ),
        ("今天是2026年3月2日，星期一。\n你是助手", "你是助手", "今天是2026年3月2日，星期一"),
        ("Be kind.\nSession ID: ab-12", "Be kind.", "Session ID: ab-12"),
        ("Today is Sunday.\nBe kind.", "Be kind.", "Today is Sunday"),
        (
            "Request #17\nTokens used: 1,234 / 8,000\nBe kind.",
            "Be kind.",
            "Request #17. Tokens used: 1,234 / 8,000",
        ),
    ],
)
def test_sentences_move_behind_the_users_words(system: str, left: str, moved: str) -> None:
    found = rewritten(chat(system))
    assert texts(found) == [left, note(moved)]
    assert len(found.what) == 1
    assert "moved behind the user's words" in found.what[0]
    assert moved not in found.what[0]


@pytest.mark.parametrize(
    "system",
    [
        "Current time: 10:00",
        "Write logs like this:\n```\nCurrent time: 10:00\n```",
        "Say `Current time: 10:00` and no more.",
        "Q: Current time: 10:00\nA: Morning.",
        "Current time: 10:00\nA: Morning.\nCurrent time: 20:00\nA: Evening.",
        "If the current time is 10:00 or later, say so.",
        "Knowledge cutoff: 2023-10-01\nBe kind.",
        "Date: Mon, 02 Mar 2026 09:00:00 GMT\nDear all, the letter above is an example.",
        "Message 1\nHello\nMessage 2\nGoodbye",
        "1. Step 1: read\n2. Step 2: answer",
        "The session ID is a secret.",
        "Today is a good day. Now is the time.",
    ],
)
def test_other_lines_stay(system: str) -> None:
    body = chat(system)
    assert rewritten(body).body is body


def test_each_rewrite_must_be_asked_for() -> None:
    system = "Current time: 10:00\nSession ID: a1\nRequest #17\nBe kind.  \nBe brief."
    body = chat(system)
    assert rewritten(body, Rewrite.TOOLS).body is body
    assert texts(rewritten(body, Rewrite.TIMESTAMPS))[1] == note("Current time: 10:00")
    assert texts(rewritten(body, Rewrite.IDS))[1] == note("Session ID: a1")
    assert texts(rewritten(body, Rewrite.COUNTERS))[1] == note("Request #17")
    assert texts(rewritten(body, Rewrite.WHITESPACE)) == [system.replace("  \n", "\n"), "Hi"]


def test_parts_of_a_message() -> None:
    body = chat(
        [{"type": "text", "text": "Now: 10:00\nBe kind."}, {"type": "text", "text": "Be brief."}],
        [{"type": "image_url", "image_url": {"url": "data:x"}}, {"type": "text", "text": "Hi"}],
    )
    system, user = texts(rewritten(body))
    assert [part["text"] for part in system] == ["Be kind.", "Be brief."]
    said = {"type": "text", "text": "[From the system prompt: Now: 10:00.]"}
    assert user == [*body["messages"][1]["content"], said]


def test_a_conversation_keeps_all_turns_but_the_last() -> None:
    turns = [
        {"role": "system", "content": "Now: 10:00\nBe kind."},
        {"role": "developer", "content": "Today is 2026-03-02.\nBe brief."},
        {"role": "user", "content": "Now: 10:00"},
        {"role": "assistant", "content": "Now: 10:00"},
        {"role": "system", "content": "Now: 11:00\nGo on."},
        {"role": "user", "content": "Hi"},
        {"role": "tool", "tool_call_id": "1", "content": "Now: 10:00"},
    ]
    found = rewritten({"model": "m", "messages": turns, "seed": 1})
    after = found.body["messages"]
    assert [turn["content"] for turn in after[:2]] == ["Be kind.", "Be brief."]
    assert after[2:5] + after[6:] == turns[2:5] + turns[6:]
    assert after[5]["content"] == note("Now: 10:00. Today is 2026-03-02")
    assert found.body["seed"] == 1
    assert turns[0]["content"] == "Now: 10:00\nBe kind."


def test_without_a_users_turn_nothing_moves() -> None:
    body = {"model": "m", "messages": [{"role": "system", "content": "Now: 10:00\nBe kind."}]}
    assert rewritten(body).body is body


class TestPromptsMadeToBeSlow:
    def test_all_that_moves_is_found_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A search for each of them would take as many times as long as one."""
        labels = [
            f"{whose}{what}{gap}{kind}"
            for whose in ("", "the ", "this ", "your ", "your current ")
            for what in ("session", "request", "trace", "thread", "run")
            for gap in (" ", "-", "_")
            for kind in ("id", "uuid")
        ]
        lines = [f"{label}: x{number}" for number, label in enumerate(labels)]
        searches = 0

        def counted(*given: Any) -> Any:
            nonlocal searches
            searches += 1
            return movable_in(*given)

        monkeypatch.setattr(reshaping, "movable_in", counted)
        found = rewritten(chat("\n".join(["Be kind.", *lines])))
        assert texts(found) == ["Be kind.", note(". ".join(lines))]
        assert searches == 2

    def test_one_that_uncovers_others_without_end_stays(self) -> None:
        """Each sentence can be moved only when the one before it has left its line."""
        chain = ".".join(f"tokens {what}: 5" for what in ("used", "left", "spent", "remaining"))
        assert texts(rewritten(chat(f"{chain}.\nBe kind.")))[0] == "Be kind."
        subjects = ("tokens", "credits", "budget", "quota", "requests", "messages", "calls")
        verbs = ("used", "left", "spent", "remaining")
        chain = ".".join(f"{what} {verb}: 5" for what in subjects for verb in verbs)
        body = chat(f"{chain}.\nBe kind.")
        assert rewritten(body).body is body

    @pytest.mark.parametrize("over", [0, 1])
    def test_a_very_long_one_keeps_its_words(self, over: int) -> None:
        line = "Now: 10:00\n"
        body = chat(line + "a" * (MAX_HEAD_CHARACTERS - len(line) + over))
        assert (rewritten(body).body is body) == bool(over)

    @pytest.mark.parametrize("over", [0, 1])
    def test_so_does_one_in_very_many_parts(self, over: int) -> None:
        parts = [{"type": "text", "text": "Be kind."}] * (MAX_HEAD_TEXTS - 1 + over)
        body = chat("")
        body["messages"][0]["content"] = [{"type": "text", "text": "Now: 10:00\nHi."}, *parts]
        assert (rewritten(body).body is body) == bool(over)


def test_responses() -> None:
    body = {"model": "m", "instructions": "Now: 10:00\nBe kind.", "input": "Hi"}
    found = rewritten(body, endpoint=Endpoint.RESPONSES).body
    assert (found["instructions"], found["input"]) == ("Be kind.", note("Now: 10:00"))
    turns = [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]
    found = rewritten({**body, "input": turns}, endpoint=Endpoint.RESPONSES).body
    assert found["input"][0]["content"][1]["type"] == "input_text"


def test_a_raw_prompt_is_never_changed() -> None:
    tools = [{"name": "b"}, {"name": "a"}]
    body = {"model": "m", "prompt": "Now: 10:00\nBe kind.  \n", "tools": tools}
    assert rewritten(body, endpoint=Endpoint.COMPLETIONS).body is body


def tool(name: str, **more: Any) -> Body:
    return {"type": "function", "function": {"name": name, **more}}


def test_tools_are_sorted_by_name() -> None:
    odd: list[Any] = [tool("b"), {"type": "web_search"}, tool("a", strict=True), {"x": 1}, 7]
    found = rewritten(chat("Be kind.", tools=odd), Rewrite.TOOLS)
    assert found.body["tools"] == [{"x": 1}, 7, tool("a", strict=True), tool("b"), odd[1]]
    assert found.what == ("tools: sorted by name",)


def test_tools_of_one_name_keep_their_order() -> None:
    same = [tool("a", description="one"), tool("a", description="two")]
    body = chat("Be kind.", tools=same)
    assert rewritten(body, Rewrite.TOOLS).body is body


def test_keys_of_tools_are_sorted_and_lists_are_not() -> None:
    schema = {"type": "object", "required": ["z", "a"], "properties": {"z": {}, "a": {}}}
    body = chat("Be kind.", tools=[tool("f", parameters=schema)], response_format={"z": 1, "a": 2})
    found = rewritten(body, Rewrite.JSON)
    function = found.body["tools"][0]["function"]
    assert list(function) == ["name", "parameters"]
    assert list(function["parameters"]) == ["properties", "required", "type"]
    assert list(function["parameters"]["properties"]) == ["a", "z"]
    assert function["parameters"]["required"] == ["z", "a"]
    assert found.body["response_format"] is body["response_format"]
    assert found.what == ("tools: keys sorted",)


def test_white_space_of_prose_only() -> None:
    system = "\n\nBe  kind. \r\n\r\n\r\n\r\n    Be brief.\n```\nx  \n\n\n\ny\n```  \n\n\n"
    found = rewritten(chat(system, " Hi  \n\n\n\n"), Rewrite.WHITESPACE)
    assert texts(found) == [
        "Be  kind.\n\n    Be brief.\n```\nx  \n\n\n\ny\n```  ",
        " Hi  \n\n\n\n",
    ]
    assert found.what == ("system prompt: white space made even",)


def test_the_identity_tells_rewrites_and_versions_apart() -> None:
    assert shape_identity(()) == ""
    both = shape_identity((Rewrite.TOOLS, Rewrite.JSON))
    assert both == shape_identity((Rewrite.JSON, Rewrite.TOOLS))
    assert both != shape_identity((Rewrite.JSON,))


@pytest.mark.parametrize("role", [["user"], {"a": 1}, None, 7])
def test_a_role_may_be_anything(role: Any) -> None:
    body = {"model": "m", "input": [{"role": role, "content": "Now: 10:00\nBe kind."}]}
    assert rewritten(body, endpoint=Endpoint.RESPONSES).body is body
