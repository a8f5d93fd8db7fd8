"""HTTP transports for the SDK's client, made for whichever of httpx and httpx2 it uses."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import ModuleType
from typing import Any, Self

from stepwell.client.desk import Desk, Incoming, Outgoing
from stepwell.client.fetch import AsyncFetcher, ClientUpstream, ThreadFetcher
from stepwell.client.portal import Portal
from stepwell.core.errors import UpstreamError
from stepwell.core.names import Endpoint
from stepwell.pipeline.served import Body

OpenDesk = Callable[[ClientUpstream], Coroutine[Any, Any, Desk]]

_ENDPOINTS = {f"/{endpoint}": endpoint for endpoint in Endpoint}


def incoming_of(request: Any, body: bytes) -> Incoming | None:  # noqa: ANN401  (httpx or httpx2)
    """Return a request of the SDK as one whose answer can be cached, or ``None``."""
    if request.method != "POST":
        return None
    path = request.url.path
    endpoint = next((e for end, e in _ENDPOINTS.items() if path.endswith(end)), None)
    if endpoint is None:
        return None
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Incoming(endpoint, headers, request.url.query.decode(), body)


class _SyncBody:
    """The rest of a body, fetched from the loop piece by piece; a `SyncByteStream`."""

    def __init__(self, body: Body, portal: Portal) -> None:
        self._body = body
        self._portal = portal

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._portal.call(_next(self._body.chunks))) is not None:
            yield chunk

    def close(self) -> None:
        """Stop; a call that nobody else reads is cancelled."""
        self._portal.call(_close(self._body))


class _AsyncBody:
    """The rest of a body; an `AsyncByteStream`."""

    def __init__(self, body: Body) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body.chunks:
            yield chunk

    async def aclose(self) -> None:
        """Stop; a call that nobody else reads is cancelled."""
        self._body.close()


class SyncTransport:
    """Answers, or passes on to the SDK's own client. Safe across threads."""

    def __init__(self, http: ModuleType, inner: Any, base_url: str, open_desk: OpenDesk) -> None:  # noqa: ANN401
        """Open the cache, on a loop of its own.

        Raises:
            ConfigError, StoreUnavailable: It cannot be opened.
        """
        self._http = http
        self._inner = inner
        self._upstream = ClientUpstream(http, base_url, ThreadFetcher(inner))
        self._stream = type("Stream", (_SyncBody, http.SyncByteStream), {})
        self._portal = Portal()
        try:
            self._desk = self._portal.call(open_desk(self._upstream))
        except BaseException:
            self._portal.close()
            raise

    def __enter__(self) -> Self:
        """Begin; the client does so when it is entered itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close."""
        self.close()

    def handle_request(self, request: Any) -> Any:  # noqa: ANN401
        """Return the response to ``request``."""
        incoming = incoming_of(request, request.read())
        if incoming is None:
            return _passed(self._http, self._inner.send(request, stream=True))
        answering = self._desk.answer(incoming, self._upstream.for_request(request))
        try:
            reply = self._portal.call(answering)
        except UpstreamError as error:
            raise _own(error) from error
        if isinstance(reply.body, Body):
            return _streamed(self._http, reply, self._stream(reply.body, self._portal))
        return _whole(self._http, reply, reply.body)

    def close(self) -> None:
        """Write what is pending and end the loop. May be called twice."""
        if not self._portal.closed:
            self._portal.call(self._desk.aclose())
            self._portal.close()


class AsyncTransport:
    """As `SyncTransport`, for asynchronous clients. The cache belongs to one event loop."""

    def __init__(self, http: ModuleType, inner: Any, base_url: str, open_desk: OpenDesk) -> None:  # noqa: ANN401
        """Prepare; the cache is opened at the first request."""
        self._http = http
        self._inner = inner
        self._upstream = ClientUpstream(http, base_url, AsyncFetcher(inner))
        self._stream = type("Stream", (_AsyncBody, http.AsyncByteStream), {})
        self._open_desk = open_desk
        self._opening: asyncio.Task[Desk] | None = None

    async def __aenter__(self) -> Self:
        """Begin; the client does so when it is entered itself."""
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Close."""
        await self.aclose()

    async def handle_async_request(self, request: Any) -> Any:  # noqa: ANN401
        """Return the response to ``request``."""
        incoming = incoming_of(request, await request.aread())
        if incoming is None:
            return _passed(self._http, await self._inner.send(request, stream=True))
        if self._opening is None:
            self._opening = asyncio.create_task(self._open_desk(self._upstream))
        desk = await asyncio.shield(self._opening)
        try:
            reply = await desk.answer(incoming, self._upstream.for_request(request))
        except UpstreamError as error:
            raise _own(error) from error
        if isinstance(reply.body, Body):
            return _streamed(self._http, reply, self._stream(reply.body))
        return _whole(self._http, reply, reply.body)

    async def aclose(self) -> None:
        """Write what is pending and close the stores. May be called twice."""
        opening, self._opening = self._opening, None
        if opening is not None:
            await (await opening).aclose()


def _passed(http: ModuleType, response: Any) -> Any:  # noqa: ANN401
    """Return a response of the inner client as one the outer client can read."""
    return http.Response(response.status_code, headers=response.headers.raw, stream=response.stream)


def _streamed(http: ModuleType, reply: Outgoing, stream: object) -> Any:  # noqa: ANN401
    return http.Response(reply.status, headers=reply.headers, stream=stream)


def _whole(http: ModuleType, reply: Outgoing, body: bytes) -> Any:  # noqa: ANN401
    return http.Response(reply.status, headers=reply.headers, content=body)


def _own(error: UpstreamError) -> BaseException:
    """Return the HTTP client's own error, which the SDK knows what to do about."""
    return error.__cause__ or error


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _close(body: Body) -> None:
    body.close()
