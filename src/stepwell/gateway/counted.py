"""Counts requests that are forwarded without asking the cache."""

from collections.abc import Awaitable, Callable
from typing import cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from stepwell.core.events import Result
from stepwell.gateway.http import ClientLeft, Receive, Scope, Send
from stepwell.gateway.parts import Parts
from stepwell.pipeline.exchange import Exchange

Answer = Callable[[Request], Awaitable[Response]]
"""A route's endpoint."""


def counted(endpoint: str, answer: Answer, parts: Parts) -> Answer:
    """Return ``answer`` so that each request to ``endpoint`` is counted once, when it is over."""

    async def answer_and_count(request: Request) -> Response:
        exchange = Exchange(endpoint, clock=parts.clock, events=parts.events)
        try:
            response = await answer(request)
        except BaseException as error:
            _end(exchange, error)
            raise
        # Starlette asks no more of a response than that it can be called.
        return cast("Response", _Counted(response, exchange))

    return answer_and_count


class _Counted:
    """A response that tells when it has been sent."""

    def __init__(self, response: Response, exchange: Exchange) -> None:
        self._response = response
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        except BaseException as error:
            _end(self._exchange, error)
            raise
        self._exchange.end(Result.BYPASS, status=self._response.status_code)


def _end(exchange: Exchange, error: BaseException) -> None:
    if isinstance(error, Exception) and not isinstance(error, ClientLeft | ClientDisconnect):
        exchange.fail(error)
    else:
        exchange.abandon()
