"""Sends one HTTP request to a model server: time limits, retries that are safe, and our errors."""

import asyncio
from dataclasses import dataclass

import aiohttp
from yarl import URL

from stepwell.core.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from stepwell.engines.http_failures import BROKEN_ERRORS, describe
from stepwell.engines.pool import Attempt, Pool, attempt

CONNECT_BACKOFF_SECONDS = (0.1, 0.4)
"""Pauses before each further try to connect."""

STALE_SECONDS = 1.0
"""A kept connection that ends this soon after a request went out, with no byte of a reply, had
been closed by the server before it read the request. One that ends later may have cost work."""

KEEP_ALIVE_SECONDS = 30.0
"""How long an idle connection is kept. Servers that close theirs sooner are noticed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one model server may take."""

    connect_timeout_seconds: float
    first_byte_timeout_seconds: float
    max_connections: int


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, ready to be sent, any number of times."""

    method: str
    url: URL
    fields: list[tuple[str, str]]
    body: bytes


class _StaleConnection(Exception):
    """The server had closed a kept connection before it read the request."""


class HttpSession:
    """Connections to one model server. Retries, and why they are safe:

    - No connection could be made: nothing was sent. Two more tries.
    - A *kept* connection ended within `STALE_SECONDS` and before any byte of a reply: servers
      close idle connections, some (llama.cpp after each stream) without announcing it, and the
      close crosses our request. One more try, on a new connection. A server that did read the
      request and died within that second works twice: it costs tokens, never a wrong answer,
      and cannot repeat, because a new connection is never taken for a stale one.

    Everything else is raised: the server may have worked already.

    Safe for many tasks on one event loop. Opens no connection before the first request.
    """

    def __init__(self, upstream: str, limits: Limits) -> None:
        """Serve the upstream with this name, which is part of every error."""
        self._upstream = upstream
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def request(self, request: Request) -> aiohttp.ClientResponse:
        """Send ``request`` and return when the reply's head is there.

        Raises:
            UpstreamUnreachable: No connection, or this session is closed.
            UpstreamTimeout: No connection, or no head, in time.
            UpstreamBroken: The connection broke after the request was sent, or what came is
                not HTTP.
        """
        pauses = iter(CONNECT_BACKOFF_SECONDS)
        fresh = False
        while True:
            try:
                return await self._attempt(request, fresh=fresh)
            except _StaleConnection:
                fresh = True
            except UpstreamUnreachable:
                pause = next(pauses, None)
                if pause is None or self._closed:
                    raise
                await asyncio.sleep(pause)

    async def aclose(self) -> None:
        """Close all connections; replies still being read break off. May be called twice."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _attempt(self, request: Request, *, fresh: bool) -> aiohttp.ClientResponse:
        session = self._open()
        started = asyncio.get_running_loop().time()
        with attempt(fresh=fresh) as current:
            try:
                async with asyncio.timeout(self._limits.first_byte_timeout_seconds):
                    return await session.request(
                        request.method,
                        request.url,
                        headers=request.fields,
                        data=request.body or None,
                        allow_redirects=False,
                    )
            except aiohttp.ConnectionTimeoutError as error:
                raise self._late("connection", self._limits.connect_timeout_seconds) from error
            except TimeoutError as error:
                raise self._late("reply", self._limits.first_byte_timeout_seconds) from error
            except aiohttp.ClientConnectorError as error:
                message = f"{self._upstream} cannot be reached: {error}"
                raise UpstreamUnreachable(message, upstream=self._upstream) from error
            except BROKEN_ERRORS as error:
                elapsed_seconds = asyncio.get_running_loop().time() - started
                if elapsed_seconds < STALE_SECONDS and _was_stale(current, error):
                    raise _StaleConnection from None
                message = f"{self._upstream} broke off, or did not speak HTTP: {describe(error)}"
                raise UpstreamBroken(message, upstream=self._upstream) from None

    def _late(self, what: str, limit_seconds: float) -> UpstreamTimeout:
        message = f"{self._upstream} gave no {what} within {limit_seconds:g} s"
        return UpstreamTimeout(message, upstream=self._upstream)

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            message = f"{self._upstream} is closed: this process is shutting down"
            raise UpstreamUnreachable(message, upstream=self._upstream)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=Pool(
                    limit=self._limits.max_connections, keepalive_timeout=KEEP_ALIVE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=self._limits.connect_timeout_seconds
                ),
                headers={"user-agent": "stepwell"},
                skip_auto_headers=("content-type",),
            )
        return self._session


def _was_stale(current: Attempt, error: Exception) -> bool:
    if not current.reused:
        return False
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # The message is text unless a part of a head had come; then it holds that head.
        return isinstance(error.message, str)
    return isinstance(error, (ConnectionResetError, BrokenPipeError, aiohttp.ClientOSError))
