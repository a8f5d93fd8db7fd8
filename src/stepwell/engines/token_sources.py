"""The exact tokens of a prompt, from the model server that will read it.

A gateway with a tokenizer of its own would have to have the same files, template and version as
every server behind it. The servers know: vLLM by ``/tokenize``, which takes a whole chat request,
llama.cpp by ``/apply-template`` and then ``/tokenize``. Both cost a request to the server, some
milliseconds, so only calls that go to it anyway are asked for.
"""

import asyncio
import sys
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.kv import Tokens
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call, Headers, Reply
from stepwell.core.steering import NoSinglePrompt, TokensUnavailable

_OK = 200

MAX_REPLY_BYTES = 32 << 20
"""Of a list of tokens, each of which takes some seven bytes."""

_CHAT_FIELDS: Final = (
    "model",
    "messages",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "mm_processor_kwargs",
)
"""What of a chat request changes its prompt; no server takes offence at those it does not know."""


class Forwards(Protocol):
    """The own routes of a server, beside those of OpenAI."""

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """Send a request; see `stepwell.core.ports.Upstream.forward`."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt that is tokenized as it is."""

    model: object
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt that a template makes."""

    members: Mapping[str, Any]
    """Those of the request that change it."""


Ask = Callable[[Forwards, Text | Conversation, Headers], Awaitable[object]]
"""Asks a server for the ids of a prompt's tokens; returns what it names."""


async def ask_vllm(server: Forwards, prompt: Text | Conversation, headers: Headers) -> object:
    """Ask vLLM's ``/tokenize``, which takes both."""
    match prompt:
        case Text(model, text):
            asked: Mapping[str, Any] = {"model": model, "prompt": text}
        case Conversation(members):
            asked = members
    return (await _post(server, "tokenize", asked, headers)).get("tokens")


async def ask_llama(server: Forwards, prompt: Text | Conversation, headers: Headers) -> object:
    """Ask llama.cpp's ``/apply-template``, where there is one to apply, and ``/tokenize``."""
    match prompt:
        case Text(_, text):
            content = text
        case Conversation(members):
            templated = await _post(server, "apply-template", members, headers)
            content = _one_text(templated.get("prompt"))
    asked = {"content": content, "add_special": True, "parse_special": True}
    return (await _post(server, "tokenize", asked, headers)).get("tokens")


class EngineTokens:
    """Implements `TokenSource` by a server's own routes. Safe for many tasks on one event loop."""

    def __init__(self, server: Forwards, ask: Ask, *, timeout_seconds: float) -> None:
        """Ask ``server``, the root of an engine, by ``ask``, and wait no longer than that."""
        self._server = server
        self._ask = ask
        self._timeout_seconds = timeout_seconds

    async def tokens(self, call: Call, body: Mapping[str, Any]) -> Tokens:
        """Return the prompt's tokens.

        Raises:
            TokensUnavailable: See `TokenSource`.
        """
        prompt = _prompt_of(call.endpoint, body)
        if not isinstance(prompt, Text | Conversation):
            return prompt
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return _ids(await self._ask(self._server, prompt, call.headers))
        except TimeoutError as error:
            raise TokensUnavailable("the server did not name the tokens in time") from error
        except (UpstreamError, RequestError, orjson.JSONDecodeError) as error:
            raise TokensUnavailable(str(error)) from error


def _prompt_of(endpoint: Endpoint, body: Mapping[str, Any]) -> Tokens | Text | Conversation:
    """Return what a request's prompt is made of; its tokens, where they are given."""
    if endpoint is Endpoint.RESPONSES:
        raise NoSinglePrompt("there is no route for the prompts of /responses")
    if endpoint is Endpoint.CHAT:
        return Conversation({name: body[name] for name in _CHAT_FIELDS if name in body})
    match body.get("prompt"):
        case [int(), *_] as ids:
            return _ids(ids)
        case [[int(), *_] as ids]:
            return _ids(ids)
        case prompt:
            return Text(body.get("model"), _one_text(prompt))


def _one_text(prompt: object) -> str:
    match prompt:
        case str(text) | [str(text)]:
            return text
        case _:
            raise NoSinglePrompt("there is no single prompt")


def _ids(tokens: object) -> Tokens:
    if not isinstance(tokens, list):
        raise TokensUnavailable("the server named no tokens")
    try:
        return tokens_of(tokens)
    except (TypeError, OverflowError) as error:
        raise TokensUnavailable("the server named what are no tokens") from error


def tokens_of(ids: Sequence[int]) -> Tokens:
    """Return token ids as the bytes that stand for them. Costs 20 us for a thousand.

    Raises:
        TypeError, OverflowError: One is no integer of 32 bits.
    """
    packed = array("i", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return Tokens(packed.tobytes())


async def _post(
    server: Forwards, path: str, body: Mapping[str, Any], headers: Headers
) -> Mapping[str, Any]:
    sent = tuple(field for field in headers if field[0] == "authorization")
    fields = (*sent, ("content-type", "application/json"))
    reply = await server.forward("POST", path, "", fields, orjson.dumps(body))
    try:
        if reply.status != _OK:
            raise TokensUnavailable(f"/{path} answered {reply.status}")
        parts: list[bytes] = []
        size = 0
        async for chunk in reply.chunks():
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise TokensUnavailable(f"/{path} answered with too much")
    finally:
        await reply.aclose()
    read = orjson.loads(b"".join(parts))
    return read if isinstance(read, dict) else {}
