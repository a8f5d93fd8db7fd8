"""Rewrites of prompts: safe for every request, whatever stands in it."""

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_policy_any_body import BODIES

from stepwell.core.names import Endpoint
from stepwell.keys.text import prose_and_code
from stepwell.policy.prompt_shape.pieces import PieceCutter
from stepwell.policy.prompt_shape.prompt import read_prompt
from stepwell.policy.prompt_shape.reshaping import Rewrite, reshape
from stepwell.policy.prompt_shape.risks import risks_of
from stepwell.policy.prompt_shape.tokens import estimated_tokens

unhurried = settings(deadline=None)

ENDPOINTS = st.sampled_from(Endpoint)
RULES = st.sets(st.sampled_from(Rewrite))

FRAGMENTS = st.sampled_from(
    [
        *(
            "Current time: 10:00",
            "Today is 2026-03-02",
            "Session ID: a1",
            "Request #7",
            "Now: 9:00",
        ),
        *(
            "Tokens used: 5 / 9",
            "今天是2026年3月2日",
            "当前时间：9点",
            "Be kind",
            "You are X",
            "你好",
        ),
        *(".", ". ", "。", ":", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\r", "- ", "**", "    "),
        *("`", "```", "```\n", "~~~\n", "[From the system prompt: ", "{", '"a": 1', "}", "[1] "),
        *("<document>", "</document>", "<think>", "</think>", "a", "7", "2026-", "\x0c", "\u2028"),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=14).map("".join)
CONTENTS = TEXTS | st.lists(TEXTS.map(lambda text: {"type": "text", "text": text}), max_size=3)
TURNS = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"]), "content": CONTENTS}
)
TOOLS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["function", "web_search"]),
            "function": st.fixed_dictionaries({"name": st.sampled_from("abc"), "a": TEXTS}),
            "name": st.sampled_from(["x", "y", 7]),
        },
    ),
    max_size=4,
)
CHATS = st.builds(
    lambda system, turns, tools: {
        "model": "m",
        "messages": [{"role": "system", "content": system}, *turns],
        "tools": tools,
        "seed": 1,
    },
    CONTENTS,
    st.lists(TURNS, max_size=4),
    TOOLS,
)


def said(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


@unhurried
@given(ENDPOINTS, BODIES, RULES)
def test_of_any_body_something_is_read_and_nothing_raises(
    endpoint: Endpoint, body: dict[str, Any], rules: set[Rewrite]
) -> None:
    reshape(endpoint, body, rules)
    risks_of(endpoint, body)


@unhurried
@given(CHATS, RULES)
def test_twice_is_once(body: dict[str, Any], rules: set[Rewrite]) -> None:
    once = reshape(Endpoint.CHAT, body, rules)
    assert reshape(Endpoint.CHAT, once.body, rules).body is once.body
    assert (once.body is body) == (once.what == ())


@unhurried
@given(CHATS, RULES)
def test_nothing_else_is_touched(body: dict[str, Any], rules: set[Rewrite]) -> None:
    before = orjson.dumps(body)
    after = reshape(Endpoint.CHAT, body, rules).body
    assert orjson.dumps(body) == before
    assert list(after) == list(body)
    system, *turns = after["messages"]
    for old, new in zip(body["messages"][1:], turns, strict=True):
        if old["role"] == "user":
            assert said(new["content"]).startswith(said(old["content"]))
        elif old["role"] != "system":
            assert new == old
    assert sorted(map(_canonical, after["tools"])) == sorted(map(_canonical, body["tools"]))
    assert _code(system["content"]) == _code(body["messages"][0]["content"])


def _canonical(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _code(content: Any) -> list[str]:
    texts = [content] if isinstance(content, str) else [part["text"] for part in content]
    return [piece for text in texts for piece, is_prose in prose_and_code(text) if not is_prose]


@unhurried
@given(CHATS, RULES)
def test_no_word_is_lost(body: dict[str, Any], rules: set[Rewrite]) -> None:
    """All letters and digits of the request are in the rewritten one; only the note's are new."""
    after = reshape(Endpoint.CHAT, body, rules).body
    note = "From the system prompt"
    more = len(_letters(after)) - len(_letters(body))
    moved = sum(a != b for a, b in zip(_users(after), _users(body), strict=True))
    assert more == moved * len(_letters(note))
    added = _letters(note) * moved
    assert sorted(_letters(after)) == sorted(_letters(body) + added)


def _letters(value: object) -> str:
    return "".join(c for c in _words(value) if c.isalnum())


def _words(value: object) -> str:
    if isinstance(value, dict) and "messages" in value:
        return "".join(said(turn["content"]) for turn in value["messages"])
    return str(value)


def _users(body: dict[str, Any]) -> list[str]:
    return [said(turn["content"]) for turn in body["messages"] if turn["role"] == "user"]


@unhurried
@given(TEXTS)
def test_pieces_are_the_text(text: str) -> None:
    cutter = PieceCutter(estimated_tokens)
    pieces = cutter.cut(text)
    assert "".join(piece.raw for piece in pieces) == text
    assert cutter.cut(text) == pieces


@unhurried
@given(TEXTS, TEXTS)
def test_a_prompt_is_all_its_words(system: str, user: str) -> None:
    turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    prompt = read_prompt(Endpoint.CHAT, {"messages": turns}, PieceCutter(estimated_tokens))
    raw = "".join(piece.raw for segment in prompt.segments for piece in segment.pieces)
    assert raw == system + user
