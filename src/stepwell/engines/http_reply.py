"""A model server's reply over HTTP, while its body is still coming."""

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp

from stepwell.core.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from stepwell.core.ports import Headers
from stepwell.engines.fields import for_client
from stepwell.engines.http_failures import BROKEN_ERRORS, describe


class HttpReply:
    """Implements `stepwell.core.ports.Reply`. Read by one task at a time."""

    __slots__ = ("_chunk_timeout_seconds", "_headers", "_on_failure", "_response", "_upstream")

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        upstream: str,
        chunk_timeout_seconds: float,
        on_failure: Callable[[UpstreamError], None],
    ) -> None:
        self._response = response
        self._headers = for_client(response.raw_headers)
        self._upstream = upstream
        self._chunk_timeout_seconds = chunk_timeout_seconds
        self._on_failure = on_failure

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._response.status

    @property
    def headers(self) -> Headers:
        """End-to-end fields, names in lower case."""
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Bytes that are already here cost no timer.

        Raises:
            UpstreamTimeout: The next chunk did not come in time.
            UpstreamBroken: The connection ended before the body did.
        """
        while chunk := await self._next():
            yield chunk

    async def aclose(self) -> None:
        """Release the connection; close it if the body has not come whole."""
        self._response.close()

    async def _next(self) -> bytes:
        content = self._response.content
        try:
            if ready := content.read_nowait(-1):
                return ready
            async with asyncio.timeout(self._chunk_timeout_seconds):
                return await content.readany()
        except TimeoutError as error:
            limit = self._chunk_timeout_seconds
            message = f"{self._upstream} sent no next chunk within {limit:g} s"
            raise self._failed(UpstreamTimeout(message, upstream=self._upstream)) from error
        except BROKEN_ERRORS as error:
            message = f"{self._upstream} broke off its answer: {describe(error)}"
            raise self._failed(UpstreamBroken(message, upstream=self._upstream)) from None

    def _failed(self, error: UpstreamError) -> UpstreamError:
        self._response.close()
        self._on_failure(error)
        return error
