"""What a call's prompt is to placement."""

from collections.abc import Mapping
from typing import Any

import pytest
from support.steering import ALICE, LateTokens, NamedTokens, asking, call, told

from stepwell.core.kv import Tokens
from stepwell.core.names import Endpoint, Namespace
from stepwell.core.ports import Call
from stepwell.core.steering import TokensUnavailable
from stepwell.engines.beside import TasksBeside
from stepwell.engines.token_sources import tokens_of
from stepwell.prefix.steering.prompts import Asked, NamedPrompts, Prompt, TextPrompts
from stepwell.prefix.steering.shaping import Shaping, with_prompt_cache_key
from stepwell.prefix.steering.text import text_tokens

BOB = Namespace(b"bob" + bytes(13))
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}


def fail(why: str) -> None:
    pytest.fail(why)


class NoTokens:
    async def tokens(self, call: Call, body: Mapping[str, Any]) -> Tokens:
        raise TokensUnavailable("not in time")


async def test_the_servers_tokens_where_they_can_be_had() -> None:
    asked = Asked.of(asking([1, 2]))
    prompt = await NamedPrompts(NamedTokens(), fail, TasksBeside()).read(asked)
    assert (prompt.tokens, prompt.is_exact) == (b"\1\0\0\0\2\0\0\0", True)
    assert (asked.model, asked.session) == ("m", None)


async def test_else_the_text_and_somebody_hears_of_it() -> None:
    heard: list[str] = []
    asked = Asked.of(call(HELLO))
    prompt = await NamedPrompts(NoTokens(), heard.append, TasksBeside()).read(asked)
    assert (prompt.tokens, prompt.is_exact) == (text_tokens(Endpoint.CHAT, HELLO), False)
    assert TextPrompts().at_once(asked) == prompt
    assert heard == ["not in time"]


def test_a_session_is_its_tenants() -> None:
    """So that nobody follows another's conversation by naming it."""
    body = {**HELLO, "prompt_cache_key": "chat 7"}
    sessions = [
        Asked.of(call(body, namespace=tenant)).session for tenant in (ALICE, ALICE, BOB, None)
    ]
    assert sessions[0] == sessions[1]
    assert len({*sessions}) == 3
    assert None not in sessions


@pytest.mark.parametrize("key", [None, 3, ["x"], {"a": 1}])
def test_what_is_no_name_of_one_is_none(key: Any) -> None:
    assert Asked.of(call({**HELLO, "prompt_cache_key": key})).session is None


@pytest.mark.parametrize("key", ["", "x" * 100_000, "\0\n", "会话"])
def test_any_text_is_one(key: str) -> None:
    session = Asked.of(call({**HELLO, "prompt_cache_key": key})).session
    assert session is not None
    assert len(session) == 16


@pytest.mark.parametrize("model", [None, 3, [], ""])
def test_a_model_that_is_no_name(model: Any) -> None:
    assert Asked.of(call({**HELLO, "model": model})).model == ""


@pytest.mark.parametrize("body", [None, [], "Hello?", 3])
def test_what_is_no_object_has_an_empty_prompt(body: Any) -> None:
    """It goes on to the server as it is, which will say what it thinks of it."""
    asked = Asked.of(call(body))
    assert TextPrompts().at_once(asked) == Prompt(Tokens(b""), is_exact=False)
    assert Shaping((with_prompt_cache_key,)).apply(asked.call, asked.body) is asked.call


async def test_what_is_read_beside_is_handed_on_unless_that_is_cancelled() -> None:
    source, read = LateTokens(), list[Prompt]()
    prompts = NamedPrompts(source, fail, TasksBeside())
    prompts.read_beside(Asked.of(asking([1, 2])), read.append)
    cancel = prompts.read_beside(Asked.of(asking([3, 4])), read.append)
    assert source.asked == 0  # Not before the caller waits for something.
    await told()
    cancel()
    source.let_go.set()
    await told()
    assert read == [Prompt(tokens_of([1, 2]), is_exact=True)]
    await prompts.aclose()


async def test_closing_cancels_what_is_being_read() -> None:
    source, read = LateTokens(), list[Prompt]()
    prompts = NamedPrompts(source, fail, TasksBeside())
    prompts.read_beside(Asked.of(asking([1, 2])), read.append)
    await told()
    await prompts.aclose()
    source.let_go.set()
    await told()
    assert (source.asked, source.named, read) == (1, 0, [])
