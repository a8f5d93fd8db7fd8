"""The endpoints whose answers can be cached: from ASGI to the runner and back."""

import asyncio
import logging
from collections.abc import Mapping

from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import Result
from stepwell.core.names import Endpoint
from stepwell.gateway.border import STOPPING, StopIfClientLeaves, check_head, tell
from stepwell.gateway.hot import DIGEST, HotPath
from stepwell.gateway.http import (
    ClientLeft,
    Receive,
    Scope,
    Send,
    header_fields,
    read_body,
    send_head,
    send_whole,
)
from stepwell.gateway.parts import Parts
from stepwell.gateway.replies import header_of
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.exchange import Exchange
from stepwell.pipeline.question import Ask
from stepwell.pipeline.served import Served
from stepwell.wire.body import parse_body

_log = logging.getLogger(__name__)

OFF_THE_LOOP_BYTES = 256 << 10
"""A larger body is parsed and keyed in a thread: odd ones take up to half a second a megabyte."""


class CachedEndpoint:
    """An ASGI application for one operation. Authenticates before it looks anything up."""

    def __init__(self, endpoint: Endpoint, parts: Parts, hot: HotPath) -> None:
        self._endpoint = endpoint
        self._parts = parts
        self._hot = hot
        self.active = 0
        """Requests being answered now; repeats, which take no time, do not count."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Always with a reply, unless the client has left."""
        exchange = Exchange(self._endpoint, clock=self._parts.clock, events=self._parts.events)
        self.active += 1
        try:
            await self._answer(exchange, scope, receive, send)
        except ClientLeft:
            exchange.abandon()
        except asyncio.CancelledError:
            # The server's doing, which stops and has waited as long as it may.
            exchange.end(Result.CANCELLED, status=STOPPING.status)
            await tell(send, exchange, STOPPING)
        except Exception as error:  # noqa: BLE001  (the border: whatever it is, the client hears)
            await self._refuse(exchange, error, send)
        finally:
            self.active -= 1

    async def _answer(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        headers = header_fields(scope)
        tenant = self._parts.auth.tenant(headers)
        check_head(scope, headers)
        raw = await read_body(scope, receive, max_bytes=self._parts.max_body_bytes)
        exchange.stage("receive")
        query = scope.get("query_string", b"").decode("latin-1")
        if len(raw) <= OFF_THE_LOOP_BYTES:
            ask = self._take(raw, headers, tenant, query)
        else:
            ask = await asyncio.to_thread(self._take, raw, headers, tenant, query)
        exchange.question = ask.question
        if (digest := scope.get(DIGEST)) is not None:
            self._hot.remember(digest, ask.question)
        exchange.stage("prepare")
        async with StopIfClientLeaves(receive):
            served = exchange.served = await self._parts.runner.answer(ask)
            await self._send(exchange, served, send)
        exchange.end()

    def _take(
        self, raw: bytes, headers: Mapping[str, str], tenant: Tenant | None, query: str
    ) -> Ask:
        return self._parts.intake.take(
            self._endpoint, parse_body(raw), headers, tenant, query=query
        )

    async def _send(self, exchange: Exchange, served: Served, send: Send) -> None:
        fields = header_of(served)
        if isinstance(served.body, bytes):
            await send_whole(send, served.status, fields, served.body)
            exchange.began()
            return
        try:
            await send_head(send, served.status, fields)
            async for chunk in served.body.chunks:
                exchange.began()
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            served.body.close()

    async def _refuse(self, exchange: Exchange, error: Exception, send: Send) -> None:
        if not isinstance(error, RequestError | UpstreamError):
            _log.exception("A request failed in a way nobody thought of.", exc_info=error)
        exchange.fail(error)
        await tell(send, exchange, error)
