"""The exact tokens of a prompt, from the model server that will read it.

A gateway with a tokenizer of its own would have to have the same files, template and version as
every server behind it. The servers know: vLLM by ``/tokenize``, which takes a whole chat request,
llama.cpp by ``/apply-template`` and then ``/tokenize``. Both cost a request to the server, some
milliseconds, so only calls that go to it anyway are asked for.
"""

import asyncio
import sys
from array import array
from collections.abc import Coroutine, Mapping, Sequence
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


class VllmTokens:
    """Implements `TokenSource` by vLLM's ``/tokenize``."""

    def __init__(self, server: Forwards, *, timeout_seconds: float) -> None:
        """Ask ``server``, the root of a vLLM server, and wait no longer than that."""
        self._server = server
        self._timeout_seconds = timeout_seconds

    async def tokens(self, call: Call) -> Tokens:
        """Return the prompt's tokens."""
        return await _within(self._timeout_seconds, self._read(call))

    async def _read(self, call: Call) -> Tokens:
        body = _body_of(call)
        if call.endpoint is Endpoint.CHAT:
            asked = {name: body[name] for name in _CHAT_FIELDS if name in body}
        elif (given := _given_ids(body.get("prompt"))) is not None:
            return given
        else:
            asked = {"model": body.get("model"), "prompt": _one_text(body.get("prompt"))}
        reply = await _post(self._server, "tokenize", asked, call.headers)
        return _ids(reply.get("tokens"))


class LlamaTokens:
    """Implements `TokenSource` by llama.cpp's ``/apply-template`` and ``/tokenize``."""

    def __init__(self, server: Forwards, *, timeout_seconds: float) -> None:
        """Ask ``server``, the root of a llama.cpp server, and wait no longer than that."""
        self._server = server
        self._timeout_seconds = timeout_seconds

    async def tokens(self, call: Call) -> Tokens:
        """Return the prompt's tokens."""
        return await _within(self._timeout_seconds, self._read(call))

    async def _read(self, call: Call) -> Tokens:
        body = _body_of(call)
        if call.endpoint is Endpoint.CHAT:
            asked = {name: body[name] for name in _CHAT_FIELDS if name in body}
            templated = await _post(self._server, "apply-template", asked, call.headers)
            text = _one_text(templated.get("prompt"))
        elif (given := _given_ids(body.get("prompt"))) is not None:
            return given
        else:
            text = _one_text(body.get("prompt"))
        content = {"content": text, "add_special": True, "parse_special": True}
        reply = await _post(self._server, "tokenize", content, call.headers)
        return _ids(reply.get("tokens"))


def _body_of(call: Call) -> Mapping[str, Any]:
    if call.endpoint is Endpoint.RESPONSES:
        raise NoSinglePrompt("there is no route for the prompts of /responses")
    body = orjson.loads(call.body)
    return body if isinstance(body, dict) else {}


def _one_text(prompt: object) -> str:
    match prompt:
        case str(text) | [str(text)]:
            return text
        case _:
            raise NoSinglePrompt("there is no single prompt")


def _given_ids(prompt: object) -> Tokens | None:
    """Return a prompt that is a list of tokens already."""
    match prompt:
        case [int(), *_] | [[int(), *_]]:
            return _ids(prompt[0] if isinstance(prompt[0], list) else prompt)
        case _:
            return None


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


async def _within(seconds: float, reading: Coroutine[object, object, Tokens]) -> Tokens:
    """Return what is read, or turn whatever fails, and what takes too long, into one error."""
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError as error:
        raise TokensUnavailable("the server did not name the tokens in time") from error
    except (UpstreamError, RequestError, orjson.JSONDecodeError) as error:
        raise TokensUnavailable(str(error)) from error


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
