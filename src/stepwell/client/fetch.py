"""The client's own HTTP client, as a model server that the pipeline can ask.

``Any`` stands for the types of httpx or httpx2, whichever the SDK uses: the same interface twice.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any, Protocol

from stepwell.core.errors import (
    UpstreamBroken,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from stepwell.core.ports import Call, Headers, Reply

_NAME = "client"

_FRAMING = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "host",
        "keep-alive",
        "transfer-encoding",
    }
)


class Fetcher(Protocol):
    """An HTTP client of either kind, from async code."""

    async def send(self, request: Any) -> Any:  # noqa: ANN401
        """Send a request; return the response, its body still coming."""
        ...

    def chunks(self, response: Any) -> AsyncIterator[bytes]:  # noqa: ANN401
        """Yield the response's body, decoded."""
        ...

    async def close(self, response: Any) -> None:  # noqa: ANN401
        """Let the response go."""
        ...


class AsyncFetcher:
    """Fetches by an asynchronous client."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401
        self._client = client

    async def send(self, request: Any) -> Any:  # noqa: ANN401
        """Send a request."""
        return await self._client.send(request, stream=True)

    async def chunks(self, response: Any) -> AsyncIterator[bytes]:  # noqa: ANN401
        """Yield the body."""
        async for chunk in response.aiter_bytes():
            yield chunk

    async def close(self, response: Any) -> None:  # noqa: ANN401
        """Let it go."""
        await response.aclose()


class ThreadFetcher:
    """Fetches by a synchronous client, in threads."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401
        self._client = client

    async def send(self, request: Any) -> Any:  # noqa: ANN401
        """Send a request."""
        return await asyncio.to_thread(self._client.send, request, stream=True)

    async def chunks(self, response: Any) -> AsyncIterator[bytes]:  # noqa: ANN401
        """Yield the body."""
        body: Iterator[bytes] = response.iter_bytes()
        while (chunk := await asyncio.to_thread(next, body, None)) is not None:
            yield chunk

    async def close(self, response: Any) -> None:  # noqa: ANN401
        """Let it go."""
        await asyncio.to_thread(response.close)


class ClientUpstream:
    """Implements `stepwell.core.ports.Upstream` by the client's own HTTP client."""

    def __init__(
        self,
        http: ModuleType,
        base_url: str,
        fetcher: Fetcher,
        original: Any = None,  # noqa: ANN401
    ) -> None:
        """Ask the server at ``base_url``.

        Args:
            http: httpx or httpx2.
            base_url: Ends in ``/v1``, as a rule.
            fetcher: Sends.
            original: The request the SDK made, whose header, address and time-outs are kept.
        """
        self._http = http
        self._base_url = base_url.rstrip("/")
        self._fetcher = fetcher
        self._original = original

    name = _NAME

    @property
    def identity(self) -> str:
        """The server's address."""
        return self._base_url

    def for_request(self, original: Any) -> "ClientUpstream":  # noqa: ANN401
        """Return the same for one request of the SDK."""
        return ClientUpstream(self._http, self._base_url, self._fetcher, original)

    async def send(self, call: Call) -> Reply:
        """Send ``call`` as the SDK would have."""
        if self._original is None:
            headers = (*call.headers, ("content-type", "application/json"))
            return await self.forward("POST", call.endpoint, call.query, headers, call.body)
        original = self._original
        headers = tuple(
            (name.lower(), value)
            for name, value in original.headers.items()
            if name.lower() not in _FRAMING
        )
        request = self._http.Request(
            original.method,
            original.url,
            headers=headers,
            content=call.body,
            extensions=original.extensions,
        )
        return await self._send(request)

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """Send any request to the server."""
        url = f"{self._base_url}/{path}{'?' if query else ''}{query}"
        return await self._send(self._http.Request(method, url, headers=headers, content=body))

    async def aclose(self) -> None:
        """Do nothing: the HTTP client is its owner's to close."""

    async def _send(self, request: Any) -> Reply:  # noqa: ANN401
        try:
            response = await self._fetcher.send(request)
        except self._http.HTTPError as error:
            raise self._translate(error) from error
        return _ClientReply(response, self._fetcher, self._translate, self._http.HTTPError)

    def _translate(self, error: Exception) -> UpstreamError:
        http, text = self._http, f"{type(error).__name__}: {error}"
        if isinstance(error, http.ConnectError | http.ConnectTimeout | http.PoolTimeout):
            return UpstreamUnreachable(text, upstream=_NAME)
        if isinstance(error, http.TimeoutException):
            return UpstreamTimeout(text, upstream=_NAME)
        return UpstreamBroken(text, upstream=_NAME)


class _ClientReply:
    """A response of the SDK's HTTP client."""

    def __init__(self, response: Any, fetcher: Fetcher, translate: Any, errors: Any) -> None:  # noqa: ANN401
        self._response = response
        self._fetcher = fetcher
        self._translate = translate
        self._errors = errors

    @property
    def status(self) -> int:
        return int(self._response.status_code)

    @property
    def headers(self) -> Headers:
        fields = self._response.headers.multi_items()
        return tuple((n.lower(), value) for n, value in fields if n.lower() not in _FRAMING)

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._fetcher.chunks(self._response):
                yield chunk
        except self._errors as error:
            raise self._translate(error) from error

    async def aclose(self) -> None:
        await self._fetcher.close(self._response)
