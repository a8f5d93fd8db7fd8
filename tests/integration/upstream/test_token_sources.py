"""Tokens of prompts, from servers that are well and from others."""

from array import array
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from support.steering import SomeReply, SomeServer

from stepwell.core.kv import Tokens
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call
from stepwell.core.steering import NoSinglePrompt, TokenSource, TokensUnavailable
from stepwell.engines.http import HttpUpstream
from stepwell.engines.token_sources import (
    MAX_REPLY_BYTES,
    Ask,
    EngineTokens,
    ask_llama,
    ask_vllm,
    tokens_of,
)
from stepwell.telemetry.meters import Meters
from stepwell.testing.fake_prefixes import FakePrefixCache, ids_of
from stepwell.testing.fake_upstream import FakeUpstream, Script

WORDS = ["<system>", "Be", "brief.", "<user>", "Hi", "there!", "<assistant>"]
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi there!"},
    ],
    "temperature": 0,
}


def call(endpoint: Endpoint = Endpoint.CHAT, **body: Any) -> Call:
    return Call(endpoint, orjson.dumps(body), (("authorization", "Bearer sk-a"), ("x", "y")))


async def named(source: TokenSource, asked: Call) -> Tokens:
    return await source.tokens(asked, orjson.loads(asked.body))


@pytest.fixture
async def server() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream(prefixes=FakePrefixCache()) as upstream:
        yield upstream


@pytest.fixture(params=[ask_vllm, ask_llama])
async def source(
    request: pytest.FixtureRequest, server: FakeUpstream
) -> AsyncIterator[TokenSource]:
    root = HttpUpstream("llm", server.base_url.removesuffix("/v1"), identity="i", events=Meters())
    yield EngineTokens(root, request.param, timeout_seconds=0.3)
    await root.aclose()


async def test_of_a_conversation(source: TokenSource, server: FakeUpstream) -> None:
    assert await named(source, call(**CHAT)) == tokens_of(ids_of(WORDS))
    for asked in server.calls:
        assert ("authorization", "Bearer sk-a") in asked.headers
        assert "temperature" not in asked.json()


async def test_of_a_text(source: TokenSource, server: FakeUpstream) -> None:
    tokens = await named(source, call(Endpoint.COMPLETIONS, model="m", prompt="once upon a time"))
    assert tokens == tokens_of(ids_of(["once", "upon", "a", "time"]))


@pytest.mark.parametrize("prompt", [[1, 2, 70_000], [[1, 2, 70_000]]])
async def test_given_as_tokens(source: TokenSource, server: FakeUpstream, prompt: Any) -> None:
    tokens = await named(source, call(Endpoint.COMPLETIONS, model="m", prompt=prompt))
    assert list(array("i", tokens)) == [1, 2, 70_000]
    assert server.call_count == 0


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        (Endpoint.RESPONSES, {"input": "Hi"}),
        (Endpoint.COMPLETIONS, {"prompt": ["one", "two"]}),
        (Endpoint.COMPLETIONS, {"prompt": None}),
        (Endpoint.COMPLETIONS, {"prompt": [1, 2**40]}),
        (Endpoint.COMPLETIONS, {"prompt": [1, "two"]}),
    ],
)
async def test_not_of_what_has_no_single_prompt(
    source: TokenSource, endpoint: Endpoint, body: dict[str, Any]
) -> None:
    with pytest.raises(TokensUnavailable):
        await named(source, call(endpoint, **body))


@pytest.mark.parametrize(
    "script",
    [
        Script(status=404),
        Script(status=500),
        Script(html=True),
        Script(head_delay_seconds=5),
    ],
)
async def test_a_server_that_does_not_say(
    source: TokenSource, server: FakeUpstream, script: Script
) -> None:
    server.scripts["m"] = server.scripts["None"] = script
    server.queue.extend([script] * 3)
    with pytest.raises(TokensUnavailable):
        await named(source, call(**CHAT))


async def test_a_server_that_is_gone(source: TokenSource, server: FakeUpstream) -> None:
    await server.__aexit__()
    with pytest.raises(TokensUnavailable):
        await named(source, call(**CHAT))
    await server.__aenter__()


@pytest.mark.parametrize("ask", [ask_vllm, ask_llama])
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[1, 2]",
        b'{"tokens": null}',
        b'{"tokens": {"0": 1}}',
        b'{"tokens": ["one"]}',
        b'{"tokens": [1.5]}',
        b'{"tokens": [[1]]}',
        b'{"tokens": [null]}',
        b'{"tokens": [4294967296]}',
        b'{"tokens": [1e400]}',
        b'{"tokens": [1',
        b'{"tokens": ' + b"[" * 100_000,
        b'{"tokens": [' + b"1," * (MAX_REPLY_BYTES // 2) + b"1]}",
    ],
)
async def test_a_server_that_lies(ask: Ask, said: bytes) -> None:
    replies = iter([b'{"prompt": "Hi"}', said] if ask is ask_llama else [said])
    server = SomeServer("liar", lambda _: SomeReply([next(replies)]))
    with pytest.raises(TokensUnavailable):
        await named(EngineTokens(server, ask, timeout_seconds=30), call(**CHAT))


@pytest.mark.parametrize("said", [b"", b"null", b'{"prompt": null}', b'{"prompt": [1, 2]}'])
async def test_a_template_that_lies(said: bytes) -> None:
    server = SomeServer("liar", lambda _: SomeReply([said]))
    with pytest.raises((TokensUnavailable, NoSinglePrompt)):
        await named(EngineTokens(server, ask_llama, timeout_seconds=30), call(**CHAT))
