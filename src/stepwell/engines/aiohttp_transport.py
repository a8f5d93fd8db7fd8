"""aiohttp as a client for ``https://``: TLS, name resolution and connection racing are its."""

import asyncio
import io
import weakref
from collections.abc import Sequence

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from stepwell.engines.aiohttp_pool import Attempt, Pool, attempt
from stepwell.engines.http_address import Address
from stepwell.engines.http_transport import (
    KEEP_ALIVE_SECONDS,
    Broken,
    CannotConnect,
    ConnectTimeout,
    Limits,
    Request,
)

_LARGE_BYTES = 1 << 20
"""From here on aiohttp warns of bytes that are sent as they are, and wants a file."""

_SUCCESS = 200

_BROKEN_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What aiohttp raises when a connection, or what comes over it, is not as HTTP has it."""


class AiohttpTransport:
    """Implements `stepwell.engines.http_transport.Transport`."""

    def __init__(self, address: Address, limits: Limits) -> None:
        self._origin = f"{address.scheme}://{address.authority}"
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False
        self._replies: weakref.WeakSet[AiohttpReply] = weakref.WeakSet()

    async def exchange(self, request: Request, *, fresh: bool) -> "AiohttpReply":
        """Send ``request`` once and return when the reply's head is there.

        Raises:
            CannotConnect, ConnectTimeout, TimeoutError, Broken: As `Transport` says.
        """
        session = self._session or self._open()
        with attempt(fresh=fresh) as current:
            try:
                async with asyncio.timeout(self._limits.first_byte_timeout_seconds):
                    response = await session.request(
                        request.method,
                        URL(self._origin + request.target, encoded=True),
                        headers=request.fields,
                        data=_payload(request.body),
                        allow_redirects=False,
                    )
            except aiohttp.ConnectionTimeoutError:
                raise ConnectTimeout from None
            except TimeoutError:
                raise
            except asyncio.CancelledError:
                if self._was_closed_meanwhile():
                    raise CannotConnect("it is closed") from None
                raise
            except aiohttp.ClientConnectorError as error:
                raise CannotConnect(str(error)) from error
            except _BROKEN_ERRORS as error:
                stale_after_seconds = _stale_after_seconds(current, error)
                raise Broken(_told(error), stale_after_seconds=stale_after_seconds) from None
        if response.status < _SUCCESS:  # aiohttp leaves out all other interim replies
            response.close()
            raise Broken("it switched protocols")
        reply = AiohttpReply(response, chunk_timeout_seconds=self._limits.chunk_timeout_seconds)
        self._replies.add(reply)
        return reply

    async def aclose(self) -> None:
        """Close all connections; replies still being read break off. May be called twice."""
        self._is_closed = True
        for reply in self._replies:
            reply.break_off()
        if self._session is not None:
            await self._session.close()

    def _was_closed_meanwhile(self) -> bool:
        """Return whether a cancellation is none: so aiohttp, when closed, ends waiting."""
        task = asyncio.current_task()
        return self._is_closed and task is not None and not task.cancelling()

    def _open(self) -> aiohttp.ClientSession:
        limits = self._limits
        self._session = aiohttp.ClientSession(
            connector=Pool(limit=limits.max_connections, keepalive_timeout=KEEP_ALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_timeout_seconds),
            skip_auto_headers=("content-type",),
            auto_decompress=False,
        )
        return self._session


class AiohttpReply:
    """Implements `stepwell.engines.http_transport.TransportReply`."""

    __slots__ = ("__weakref__", "_chunk_timeout_seconds", "_response")

    def __init__(self, response: aiohttp.ClientResponse, *, chunk_timeout_seconds: float) -> None:
        self._response = response
        self._chunk_timeout_seconds = chunk_timeout_seconds

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._response.status

    @property
    def raw_fields(self) -> Sequence[tuple[bytes, bytes]]:
        """All header fields as they came."""
        return self._response.raw_headers

    async def read(self) -> bytes:
        """Return what has come of the body. Bytes that are already here cost no timer.

        Raises:
            TimeoutError: Nothing came in time.
            Broken: The connection ended before the body did.
        """
        content = self._response.content
        try:
            if ready := content.read_nowait(-1):
                return ready
            async with asyncio.timeout(self._chunk_timeout_seconds):
                return await content.readany()
        except TimeoutError:
            raise
        except _BROKEN_ERRORS as error:
            raise Broken(_told(error)) from None

    def close(self) -> None:
        """Drop the connection, unless the body has come whole. May be called twice."""
        self._response.close()

    def break_off(self) -> None:
        """End the reply, unless its body has come whole.

        aiohttp's session, when closed, leaves readers waiting, and takes its own end of a
        connection for the end of a body that lasts as long as the connection.
        """
        if not self._response.content.is_eof():
            self._response.content.set_exception(aiohttp.ClientConnectionError())


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    if len(body) < _LARGE_BYTES:
        return body or None
    return io.BytesIO(body)  # without a copy


def _stale_after_seconds(current: Attempt, error: Exception) -> float | None:
    if current.reused_at is None:
        return None
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # The message is text unless a part of a head had come; then it holds that head.
        is_stale = isinstance(error.message, str)
    else:
        is_stale = isinstance(error, (ConnectionResetError, BrokenPipeError, aiohttp.ClientOSError))
    return asyncio.get_running_loop().time() - current.reused_at if is_stale else None


def _told(error: Exception) -> str:
    """Say what happened without quoting it.

    aiohttp's own texts hold the request's fields, the key among them, and the reply's bytes:
    neither may reach a log, which is also why such errors are not chained as causes.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
