"""The engine over HTTP, in OpenAI's protocol."""

import asyncio
import hmac
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from stepwell.core.errors import RequestError
from stepwell.core.kv import KvScope, Tokens
from stepwell.engines.torch.answerer import Answerer, Ended, Piece
from stepwell.engines.torch.engine import Began
from stepwell.engines.torch.model import ModelFacts
from stepwell.engines.torch.prompts import Prompt, ids_of
from stepwell.engines.torch.replies import Shape
from stepwell.engines.torch.requests import (
    Asked,
    ChatAsked,
    HoldAsked,
    TextAsked,
    TokensAsked,
    read,
    sampling_of,
    tenant_of,
)
from stepwell.engines.torch.sampling import Sampling
from stepwell.wire.errors import error_body, error_event
from stepwell.wire.sse import format_event

_log = logging.getLogger(__name__)

DEFAULT_ANSWER_TOKENS = 512
"""Where a request does not say: so small a model may never stop by itself."""

MAX_BODY_BYTES = 16 << 20

_DONE = format_event(b"[DONE]")
_NO_BUFFERING = {"cache-control": "no-cache"}

T = TypeVar("T")

Handler = Callable[[Request], Awaitable[Response]]

Pin = Callable[[KvScope, Tokens, float], None]
"""Has the blocks of a prompt, there or to come, kept for so many seconds."""

_ONE_TOKEN = Sampling(temperature=0.0, top_p=1.0, seed=None, max_tokens=1, stop=())


class App:
    """Routes of one model. `asgi` is an application for any ASGI server."""

    def __init__(
        self,
        answerer: Answerer,
        facts: ModelFacts,
        *,
        api_key: str,
        metrics: Callable[[], bytes],
        pin: Pin,
        take_trouble: Callable[[], str],
    ) -> None:
        """Make the routes.

        Args:
            answerer: What answers.
            facts: What is told of the model.
            api_key: All routes but ``/health`` want it as a bearer token.
            metrics: Returns what ``/metrics`` shows, in Prometheus's text format.
            pin: Keeps what is not to leave.
            take_trouble: Returns what went wrong last at keeping blocks, once; else nothing.
        """
        self._pin = pin
        self._take_trouble = take_trouble
        self._answerer = answerer
        self._facts = facts
        self._authorization = f"Bearer {api_key}".encode()
        self._metrics = metrics
        post, get = ["POST"], ["GET"]
        self.asgi = Starlette(
            routes=[
                Route("/v1/chat/completions", self._guarded(self._chat), methods=post),
                Route("/v1/completions", self._guarded(self._text), methods=post),
                Route("/v1/models", self._guarded(self._models), methods=get),
                Route("/tokenize", self._guarded(self._tokenize), methods=post),
                Route("/hold", self._guarded(self._hold), methods=post),
                Route("/trouble", self._guarded(self._tell_trouble), methods=post),
                Route("/metrics", self._guarded(self._show_metrics), methods=get),
                Route("/health", self._health, methods=get),
            ],
            exception_handlers={
                RequestError: _refused,
                ClientDisconnect: _unheard,
                HTTPException: _not_served,
                Exception: _failed,
            },
        )

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            if not hmac.compare_digest(given, self._authorization):
                raise RequestError("the key is wrong", status=401, code="invalid_api_key")
            return await handler(request)

        return guarded

    async def _chat(self, request: Request) -> Response:
        asked = read(await _body(request), ChatAsked)
        self._check_model(asked.model)
        messages = [message.plain() for message in asked.messages]
        prompt = await asyncio.to_thread(self._answerer.prompter.chat, messages, asked.tenant)
        limit = asked.max_completion_tokens or asked.max_tokens
        shape = Shape("chat", self._facts.name)
        return await self._answer(request, asked, prompt, limit, shape)

    async def _text(self, request: Request) -> Response:
        asked = read(await _body(request), TextAsked)
        self._check_model(asked.model)
        prompt = await asyncio.to_thread(self._prompt_of, asked)
        shape = Shape("text", self._facts.name)
        return await self._answer(request, asked, prompt, asked.max_tokens, shape)

    def _prompt_of(self, asked: TextAsked) -> Prompt:
        prompter, given = self._answerer.prompter, asked.prompt
        if isinstance(given, str):
            return prompter.text(given, asked.tenant)
        if len(given) == 1 and isinstance(given[0], str):
            return prompter.text(given[0], asked.tenant)
        ids = [one for one in given if isinstance(one, int)]
        if len(ids) != len(given):
            raise RequestError("this engine takes one prompt at a time", param="prompt")
        return prompter.tokens(ids, asked.tenant)

    async def _answer(
        self, request: Request, asked: Asked, prompt: Prompt, limit: int | None, shape: Shape
    ) -> Response:
        sampling = sampling_of(asked, limit, DEFAULT_ANSWER_TOKENS)
        self._answerer.engine.check(prompt)
        if not asked.stream:
            whole = await _unless_left(request, self._whole(prompt, sampling, shape))
            return _json(whole)
        events = self._events(prompt, sampling, shape, with_usage=asked.with_usage)
        # The status is sent with the first event: a refusal must still become a 4xx.
        try:
            first = await _unless_left(request, _next(events))
        except BaseException:
            await events.aclose()
            raise
        return StreamingResponse(
            _joined(first, events), media_type="text/event-stream", headers=_NO_BUFFERING
        )

    async def _whole(self, prompt: Prompt, sampling: Sampling, shape: Shape) -> dict[str, Any]:
        text: list[str] = []
        ended: Ended | None = None
        async with aclosing(self._answerer.answer(prompt, sampling)) as events:
            async for event in events:
                if isinstance(event, Piece):
                    text.append(event.text)
                elif isinstance(event, Ended):
                    ended = event
        if ended is None:
            raise RuntimeError("an answer without an end")
        return shape.whole("".join(text), ended)

    async def _events(
        self, prompt: Prompt, sampling: Sampling, shape: Shape, *, with_usage: bool
    ) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._answerer.answer(prompt, sampling)) as events:
            async for event in events:
                match event:
                    case Began():
                        first = shape.first()
                        yield b"" if first is None else _event(first)
                    case Piece(text):
                        yield _event(shape.piece(text))
                    case Ended():
                        yield _event(shape.last(event))
                        if with_usage:
                            yield _event(shape.usage(event))
                        yield _DONE

    async def _models(self, _: Request) -> Response:
        facts = self._facts
        model = {
            "id": facts.name,
            "object": "model",
            "created": 0,
            "owned_by": "stepwell",
            "max_model_len": facts.context_tokens,
        }
        return _json({"object": "list", "data": [model]})

    async def _tokenize(self, request: Request) -> Response:
        asked = read(await _body(request), TokensAsked)
        prompter = self._answerer.prompter
        if (asked.prompt is None) == (asked.messages is None):
            raise RequestError("needs exactly one of prompt and messages")
        tenant = tenant_of(asked.cache_salt)
        if asked.prompt is not None:
            prompt = await asyncio.to_thread(prompter.text, asked.prompt, tenant)
        else:
            messages = [message.plain() for message in asked.messages or ()]
            prompt = await asyncio.to_thread(prompter.chat, messages, tenant)
        return _json(
            {
                "count": prompt.length,
                "max_model_len": self._facts.context_tokens,
                "tokens": ids_of(prompt.tokens),
            }
        )

    async def _hold(self, request: Request) -> Response:
        """Compute a prompt, and keep it. Only who has the engine's key can ask for that."""
        asked = read(await _body(request), HoldAsked)
        self._check_model(asked.model)
        messages = [message.plain() for message in asked.messages]
        tenant = tenant_of(asked.cache_salt)
        prompt = await asyncio.to_thread(self._answerer.prompter.chat, messages, tenant)
        self._answerer.engine.check(prompt)
        scope = self._facts.scope(tenant)
        # Before it is computed: what is pinned is let in at first sight.
        self._pin(scope, prompt.tokens, asked.ttl_seconds)
        shape = Shape("chat", self._facts.name)
        whole = await _unless_left(request, self._whole(prompt, _ONE_TOKEN, shape))
        await self._answerer.engine.kept()
        return _json(whole)

    async def _tell_trouble(self, _: Request) -> Response:
        """Say what went wrong, to whoever asks first: so one of the gateway's workers logs it."""
        return Response(self._take_trouble(), media_type="text/plain; charset=utf-8")

    async def _show_metrics(self, _: Request) -> Response:
        return Response(self._metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _health(self, _: Request) -> Response:
        return _json({"status": "ok"})

    def _check_model(self, name: str) -> None:
        if name != self._facts.name:
            raise RequestError(
                f"there is no model {name!r} here, only {self._facts.name!r}",
                status=404,
                code="model_not_found",
                param="model",
            )


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise RequestError(
                f"the body is larger than {MAX_BODY_BYTES} bytes",
                status=413,
                code="body_too_large",
            )
        parts.append(part)
    return b"".join(parts)


async def _unless_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` does, but cancel it when the client leaves."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _next(events: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(events)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _joined(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    """Yield a stream whose first event is here; what goes wrong later is told in the stream."""
    try:
        yield first
        async for event in rest:
            yield event
    except Exception as error:  # noqa: BLE001  (logged, and told)
        _log.exception("An answer broke off.")
        yield error_event(error)
    finally:
        await rest.aclose()


def _event(data: dict[str, Any]) -> bytes:
    return format_event(orjson.dumps(data))


def _json(data: dict[str, Any]) -> Response:
    return Response(orjson.dumps(data), media_type="application/json")


async def _refused(_: Request, error: Exception) -> Response:
    status, body = error_body(error)
    return Response(body, status, media_type="application/json")


async def _not_served(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    told = f"{request.method} {request.url.path} is not served here"
    return await _refused(request, RequestError(told, status=status, code="not_found"))


async def _unheard(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


async def _failed(request: Request, error: Exception) -> Response:
    _log.error("%s failed.", request.url.path, exc_info=error)
    return await _refused(request, error)
