"""What a call's prompt is to placement."""

from typing import Any

import pytest
from support.steering import ALICE, NamedTokens, asking, call

from stepwell.core.kv import Tokens
from stepwell.core.names import Endpoint, Namespace
from stepwell.core.ports import Call
from stepwell.core.steering import TokensUnavailable
from stepwell.prefix.steering.prompts import Prompts
from stepwell.prefix.steering.text import text_tokens

BOB = Namespace(b"bob" + bytes(13))
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}


class NoTokens:
    async def tokens(self, call: Call) -> Tokens:
        raise TokensUnavailable("not in time")


async def test_the_servers_tokens_where_they_can_be_had() -> None:
    prompt = await Prompts(NamedTokens()).read(asking([1, 2]))
    assert (prompt.tokens, prompt.is_exact) == (b"\1\0\0\0\2\0\0\0", True)
    assert (prompt.model, prompt.session) == ("m", None)


@pytest.mark.parametrize("prompts", [Prompts(), Prompts(NoTokens())])
async def test_else_the_text(prompts: Prompts) -> None:
    prompt = await prompts.read(call(HELLO))
    assert (prompt.tokens, prompt.is_exact) == (text_tokens(Endpoint.CHAT, HELLO), False)


async def test_a_session_is_its_tenants() -> None:
    """So that nobody follows another's conversation by naming it."""
    body = {**HELLO, "prompt_cache_key": "chat 7"}
    sessions = [
        (await Prompts().read(call(body, namespace=tenant))).session
        for tenant in (ALICE, ALICE, BOB, None)
    ]
    assert sessions[0] == sessions[1]
    assert len({*sessions}) == 3
    assert None not in sessions


@pytest.mark.parametrize("key", [None, 3, ["x"], {"a": 1}])
async def test_what_is_no_name_of_one_is_none(key: Any) -> None:
    assert (await Prompts().read(call({**HELLO, "prompt_cache_key": key}))).session is None


@pytest.mark.parametrize("key", ["", "x" * 100_000, "\0\n", "会话"])
async def test_any_text_is_one(key: str) -> None:
    session = (await Prompts().read(call({**HELLO, "prompt_cache_key": key}))).session
    assert session is not None
    assert len(session) == 16


@pytest.mark.parametrize("model", [None, 3, [], ""])
async def test_a_model_that_is_no_name(model: Any) -> None:
    assert (await Prompts().read(call({**HELLO, "model": model}))).model == ""
