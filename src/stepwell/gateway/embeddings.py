"""``/v1/embeddings``: from ASGI to the embedding cache and back. Needs numpy."""

import asyncio
import logging
from collections.abc import Mapping

from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import Result
from stepwell.core.ports import Headers, Reply
from stepwell.gateway.border import STOPPING, StopIfClientLeaves, check_head, tell
from stepwell.gateway.cached import OFF_THE_LOOP_BYTES
from stepwell.gateway.hot import DIGEST
from stepwell.gateway.http import (
    ClientLeft,
    Receive,
    Scope,
    Send,
    header_fields,
    read_body,
    send_head,
    send_whole,
    sendable,
)
from stepwell.gateway.parts import EmbeddingParts, Parts
from stepwell.gateway.replies import without_ours
from stepwell.pipeline.embedding_asks import EmbeddingAsk, ForeignAsk, Parsed, parse
from stepwell.pipeline.embedding_exchange import LAYER, EmbeddingExchange, say
from stepwell.pipeline.embeddings import Answered, Forwarded, Refusal, Vectors
from stepwell.wire.cache_status import Forward, forward_status, hit_status

_log = logging.getLogger(__name__)

_OK = 200
_JSON = ("content-type", "application/json")


class EmbeddingsEndpoint:
    """An ASGI application. Authenticates before it looks anything up."""

    def __init__(self, parts: Parts, rooms: EmbeddingParts) -> None:
        """Answer with what ``rooms`` know, or get from the model servers."""
        self._parts = parts
        self._desk = rooms.desk
        self._repeats = rooms.repeats
        self.active = 0
        """Requests being answered now; repeats, which take no time, do not count."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Always with a reply, unless the client has left."""
        exchange = EmbeddingExchange(clock=self._parts.clock, events=self._parts.events)
        self.active += 1
        try:
            await self._answer(exchange, scope, receive, send)
        except ClientLeft:
            exchange.abandon()
        except asyncio.CancelledError:
            # The server's doing, which stops and has waited as long as it may.
            exchange.stop(STOPPING.status)
            await tell(send, exchange, STOPPING)
        except Exception as error:  # noqa: BLE001  (the border: whatever it is, the client hears)
            if not isinstance(error, RequestError | UpstreamError):
                _log.exception("A request failed in a way nobody thought of.", exc_info=error)
            exchange.fail(error)
            await tell(send, exchange, error)
        finally:
            self.active -= 1

    async def _answer(
        self, exchange: EmbeddingExchange, scope: Scope, receive: Receive, send: Send
    ) -> None:
        headers = header_fields(scope)
        tenant = self._parts.auth.tenant(headers)
        check_head(scope, headers)
        raw = await read_body(scope, receive, max_bytes=self._parts.max_body_bytes)
        parsed = await self._parse(raw, headers)
        query = scope.get("query_string", b"").decode("latin-1")
        ask = exchange.ask = self._desk.intake.take(parsed, headers, tenant, query=query)
        if isinstance(ask, EmbeddingAsk) and (digest := scope.get(DIGEST)) is not None:
            self._repeats.remember(digest, ask)
        at_once = self._desk.answer_now(ask) if isinstance(ask, EmbeddingAsk) else None
        if at_once is not None:
            await self._send(exchange, at_once, send)
        else:
            async with StopIfClientLeaves(receive):
                await self._ask_around(exchange, ask, send)

    async def _parse(self, raw: bytes, headers: Mapping[str, str]) -> Parsed:
        max_inputs = self._desk.intake.max_inputs
        if len(raw) <= OFF_THE_LOOP_BYTES:
            return parse(raw, headers, max_inputs=max_inputs)
        return await asyncio.to_thread(parse, raw, headers, max_inputs=max_inputs)

    async def _ask_around(
        self, exchange: EmbeddingExchange, ask: EmbeddingAsk | ForeignAsk, send: Send
    ) -> None:
        await self._send(exchange, await self._desk.answer(ask), send)

    async def _send(self, exchange: EmbeddingExchange, answered: Answered, send: Send) -> None:
        fields = header_of(answered)
        match answered:
            case Vectors():
                await send_whole(send, _OK, fields, answered.body)
            case Refusal():
                await send_whole(send, answered.status, fields, answered.body)
            case Forwarded():
                await _pass_on(exchange, answered.reply, fields, send)
        exchange.end(answered)


async def _pass_on(exchange: EmbeddingExchange, reply: Reply, fields: Headers, send: Send) -> None:
    """Send a model server's reply as it comes."""
    try:
        await send_head(send, reply.status, fields)
        async for chunk in reply.chunks():
            exchange.has_begun = True
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await reply.aclose()


def header_of(answered: Answered) -> Headers:
    """Return the header fields of a reply, framing and date left out."""
    match answered:
        case Vectors():
            theirs = (*without_ours(sendable(answered.headers)), _JSON)
        case Refusal():
            theirs = tuple(without_ours(sendable(answered.headers)))
        case Forwarded(reply, reason):
            theirs = (*without_ours(sendable(reply.headers)), ("x-stepwell-bypass", reason))
    return (*theirs, ("cache-status", cache_status(answered)), ("x-cache", _word(answered)))


def cache_status(answered: Answered) -> str:
    """Return the ``Cache-Status`` member of this cache (RFC 9211)."""
    match answered:
        case Vectors(result=Result.HIT):
            return hit_status(None, detail=LAYER)
        case Vectors(result=result):
            return forward_status(
                Forward.PARTIAL if answered.is_partial else Forward.MISS,
                stored=answered.is_stored,
                collapsed=result is Result.COLLAPSED,
                detail=say(answered) if answered.is_partial else None,
            )
        case Refusal(status):
            return forward_status(Forward.MISS, status=status)
        case Forwarded(_, reason):
            return forward_status(Forward.BYPASS, detail=reason)


def _word(answered: Answered) -> str:
    match answered:
        case Vectors():
            return answered.result.upper()
        case Refusal():
            return Result.MISS.upper()
        case Forwarded():
            return Result.BYPASS.upper()
