"""What is added to requests for a model server's prefix cache."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.names import Endpoint, Namespace
from stepwell.core.ports import Call
from stepwell.core.steering import Hold
from stepwell.prefix.steering.shaping import (
    BREAKPOINT,
    MAX_BREAKPOINTS,
    Salted,
    Shape,
    Shaping,
    hold_body,
    with_breakpoints,
    with_prompt_cache_key,
)

ALICE, BOB = Namespace(b"a" * 16), Namespace(b"b" * 16)
LONG = "You are a helpful assistant. " * 200
SYSTEM = {"role": "system", "content": LONG}
HELLO = {"role": "user", "content": "Hello?"}


def call(body: Any, namespace: Namespace | None = ALICE) -> Call:
    return Call(Endpoint.CHAT, orjson.dumps(body), (), namespace=namespace)


def shaped(shape: Shape, body: dict[str, Any], namespace: Namespace | None = ALICE) -> Any:
    return orjson.loads(Shaping((shape,)).apply(call(body, namespace), body).body)


def salt_of(namespace: Namespace | None) -> str:
    return f"salt of {namespace!r}"


class TestSalt:
    def test_is_the_owners_whatever_the_caller_says(self) -> None:
        body = {"model": "m", "messages": [HELLO], "cache_salt": salt_of(BOB)}
        assert shaped(Salted(salt_of), body) == {**body, "cache_salt": salt_of(ALICE)}

    def test_nobodys_requests_have_one_too(self) -> None:
        assert shaped(Salted(salt_of), {"model": "m"}, None)["cache_salt"] == salt_of(None)


class TestPromptCacheKey:
    def test_is_the_same_for_one_owner_and_system_prompt(self) -> None:
        one = {"model": "m", "messages": [SYSTEM, HELLO]}
        other = {"model": "m", "messages": [SYSTEM, {"role": "user", "content": "Bye"}]}
        key = shaped(with_prompt_cache_key, one)["prompt_cache_key"]
        assert shaped(with_prompt_cache_key, other)["prompt_cache_key"] == key
        assert shaped(with_prompt_cache_key, one, BOB)["prompt_cache_key"] != key
        assert shaped(with_prompt_cache_key, {**one, "model": "n"})["prompt_cache_key"] != key
        assert shaped(with_prompt_cache_key, {**one, "tools": [1]})["prompt_cache_key"] != key
        assert "Alice" not in key
        assert len(key) == 22

    def test_the_callers_own_stays(self) -> None:
        body = {"model": "m", "messages": [HELLO], "prompt_cache_key": "mine"}
        assert shaped(with_prompt_cache_key, body) == body


def marks(body: Any) -> list[str]:
    """Return what is marked, in short."""
    found = [f"tool {tool['name']}" for tool in body.get("tools", ()) if BREAKPOINT in tool]
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, list) and any(BREAKPOINT in part for part in content):
            found.append(message["role"] + " " + content[-1]["text"][:5])
    return found


class TestBreakpoints:
    def test_stand_where_the_next_turn_will_part(self) -> None:
        turns = [{"role": "user", "content": f"{number}: why?"} for number in range(4)]
        body = {"messages": [SYSTEM, *turns], "tools": [{"name": "a"}, {"name": "b"}]}
        assert marks(shaped(with_breakpoints, body)) == [
            "tool b",
            "system You a",
            "user 2: wh",
            "user 3: wh",
        ]

    def test_text_stays_what_it_was(self) -> None:
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        body = {"messages": [SYSTEM, {"role": "user", "content": parts}]}
        result = shaped(with_breakpoints, body)
        assert result["messages"][0]["content"][0]["text"] == LONG
        assert [part["text"] for part in result["messages"][1]["content"]] == ["a", "b"]
        assert BREAKPOINT not in result["messages"][1]["content"][0]

    @pytest.mark.parametrize(
        "body",
        [
            {"messages": [HELLO]},
            {"messages": [{**SYSTEM, "cache_control": {"type": "ephemeral"}}]},
            {"messages": LONG},
            {"messages": []},
            {"prompt": LONG},
        ],
    )
    def test_none_where_they_are_of_no_use(self, body: dict[str, Any]) -> None:
        assert shaped(with_breakpoints, body) == body

    @given(
        st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
                optional={
                    "content": st.one_of(
                        st.none(), st.text(max_size=3), st.lists(st.just(LONG), max_size=2)
                    )
                },
            ),
            max_size=6,
        )
    )
    def test_never_more_than_are_allowed(self, messages: list[dict[str, Any]]) -> None:
        body = {"messages": [*messages, SYSTEM], "tools": [{"name": "a"}]}
        result = shaped(with_breakpoints, body)
        assert orjson.dumps(result).count(b'"cache_control"') <= MAX_BREAKPOINTS
        assert [m["role"] for m in result["messages"]] == [m["role"] for m in body["messages"]]


def test_nothing_to_do_leaves_the_very_call() -> None:
    asked = call({"messages": [HELLO]})
    body = orjson.loads(asked.body)
    assert Shaping(()).apply(asked, body) is asked
    assert Shaping((with_breakpoints,)).apply(asked, body) is asked
    assert Shaping((with_breakpoints,)).apply(call([1]), {}).body == b"[1]"


def test_what_our_own_engine_is_to_hold() -> None:
    body = {"model": "m", "messages": [HELLO], "max_tokens": 1, "cache_salt": "s"}
    assert orjson.loads(hold_body(body, Hold(60))) == {
        "model": "m",
        "messages": [HELLO],
        "cache_salt": "s",
        "ttl_seconds": 60,
    }
