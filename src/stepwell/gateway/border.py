"""What an endpoint does at its border that answers by itself: heads, errors, clients that leave."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from stepwell.core.errors import RequestError
from stepwell.gateway.http import ClientLeft, Receive, Scope, Send, send_whole
from stepwell.wire.errors import error_body

_JSON = (("content-type", "application/json"),)
_NOT_ALLOWED = 405
_UNSUPPORTED = 415

STOPPING = RequestError(
    "The gateway stopped before the answer was there. The request may be tried again.",
    status=503,
    code="stopping",
)


class Begun(Protocol):
    """What is known of a reply."""

    @property
    def has_begun(self) -> bool:
        """Whether part of it was handed over."""
        ...


def check_head(scope: Scope, headers: Mapping[str, str]) -> None:
    """Refuse what is no ``POST``, or is coded.

    Raises:
        RequestError: 405 or 415.
    """
    if scope["method"] != "POST":
        raise RequestError("Use POST.", status=_NOT_ALLOWED, code="method_not_allowed")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError(
            "Send the body as it is, without a Content-Encoding.",
            status=_UNSUPPORTED,
            code="unsupported_encoding",
        )


async def tell(send: Send, exchange: Begun, error: Exception) -> None:
    """Send ``error`` in OpenAI's form."""
    if exchange.has_begun:
        return  # Half a reply is out; the server closes the connection, which says enough.
    status, body = error_body(error)
    fields = (*_JSON, ("allow", "POST")) if status == _NOT_ALLOWED else _JSON
    with suppress(OSError, RuntimeError):  # It has left; uvloop's word for it is the latter.
        await send_whole(send, status, fields, body)


class StopIfClientLeaves:
    """Cancels what runs inside as soon as the client closes its connection.

    Raises:
        ClientLeft: It did.
    """

    def __init__(self, receive: Receive) -> None:
        """Watch ``receive``, of which the whole request has been read."""
        self._receive = receive
        self._left = False

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        self._watcher = asyncio.create_task(self._watch())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watcher.cancel()
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled and self._left and self._task is not None and self._task.uncancel() == 0:
            raise ClientLeft from None

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left = True
        if self._task is not None:
            self._task.cancel()
