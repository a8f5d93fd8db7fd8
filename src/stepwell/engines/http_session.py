"""Sends one HTTP request to a model server: time limits, retries that are safe, and our errors."""

import asyncio

from stepwell.core.errors import (
    UpstreamBroken,
    UpstreamConnectTimeout,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.engines.http_transport import (
    Broken,
    CannotConnect,
    ConnectTimeout,
    Limits,
    Request,
    Transport,
    TransportReply,
)

CONNECT_BACKOFF_SECONDS = (0.1, 0.4)
"""Pauses before each further try to connect."""

STALE_SECONDS = 1.0
"""A kept connection that ends this soon after a request went out, with no byte of a reply, had
been closed by the server before it read the request. One that ends later may have cost work."""


class HttpSession:
    """Requests to one model server. Retries, and why they are safe:

    - No connection could be made: nothing was sent. Two more tries.
    - A *kept* connection ended within `STALE_SECONDS` and before any byte of a reply: servers
      close idle connections, some (llama.cpp after each stream) without announcing it, and the
      close crosses our request. One more try, on a new connection. A server that did read the
      request and died within that second works twice: it costs tokens, never a wrong answer,
      and cannot repeat, because a new connection is never taken for a stale one.

    Everything else is raised: the server may have worked already.

    Safe for many tasks on one event loop. Opens no connection before the first request.
    """

    def __init__(self, upstream: str, transport: Transport, limits: Limits) -> None:
        """Serve the upstream with this name, which is part of every error, by ``transport``."""
        self._upstream = upstream
        self._transport = transport
        self._limits = limits
        self._is_closed = False

    async def request(self, request: Request) -> TransportReply:
        """Send ``request`` and return when the reply's head is there.

        Raises:
            UpstreamUnreachable: No connection, or this session is closed.
            UpstreamConnectTimeout: No connection in time.
            UpstreamTimeout: No head in time.
            UpstreamBroken: The connection broke after the request was sent, or what came is
                not HTTP.
        """
        pauses = iter(CONNECT_BACKOFF_SECONDS)
        fresh = False
        while not self._is_closed:
            try:
                return await self._transport.exchange(request, fresh=fresh)
            except CannotConnect as error:
                pause = next(pauses, None)
                if pause is None:
                    message = f"{self._upstream} cannot be reached: {error}"
                    raise UpstreamUnreachable(message, upstream=self._upstream) from error
                await asyncio.sleep(pause)
            except Broken as error:
                if not _is_stale(error):
                    message = f"{self._upstream} broke off, or did not speak HTTP: {error}"
                    raise UpstreamBroken(message, upstream=self._upstream) from None
                fresh = True
            except ConnectTimeout:
                limit_seconds = self._limits.connect_timeout_seconds
                raise self._late(UpstreamConnectTimeout, "connection", limit_seconds) from None
            except TimeoutError:
                limit_seconds = self._limits.first_byte_timeout_seconds
                raise self._late(UpstreamTimeout, "reply", limit_seconds) from None
        message = f"{self._upstream} is closed: this process is shutting down"
        raise UpstreamUnreachable(message, upstream=self._upstream)

    async def aclose(self) -> None:
        """Close all connections; replies still being read break off. May be called twice."""
        self._is_closed = True
        await self._transport.aclose()

    def _late(
        self, kind: type[UpstreamTimeout], what: str, limit_seconds: float
    ) -> UpstreamTimeout:
        message = f"{self._upstream} gave no {what} within {limit_seconds:g} s"
        return kind(message, upstream=self._upstream)


def _is_stale(error: Broken) -> bool:
    seconds = error.stale_after_seconds
    return seconds is not None and seconds < STALE_SECONDS
