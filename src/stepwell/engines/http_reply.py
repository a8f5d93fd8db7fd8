"""A model server's reply over HTTP, while its body is still coming."""

import asyncio
from collections.abc import AsyncIterator, Callable

from stepwell.core.errors import UpstreamBroken, UpstreamError, UpstreamTimeout
from stepwell.core.ports import Headers
from stepwell.engines.http_coding import BadCoding, Decoder
from stepwell.engines.http_transport import Broken, TransportReply


class HttpReply:
    """Implements `stepwell.core.ports.Reply`. Read by one task at a time."""

    __slots__ = (
        "_chunk_timeout_seconds",
        "_decoder",
        "_headers",
        "_on_failure",
        "_raw",
        "_upstream",
    )

    def __init__(
        self,
        raw: TransportReply,
        headers: Headers,
        decoder: Decoder | None,
        *,
        upstream: str,
        chunk_timeout_seconds: float,
        on_failure: Callable[[UpstreamError], None],
    ) -> None:
        self._raw = raw
        self._headers = headers
        self._decoder = decoder
        self._upstream = upstream
        self._chunk_timeout_seconds = chunk_timeout_seconds
        self._on_failure = on_failure

    @property
    def status(self) -> int:
        """HTTP status."""
        return self._raw.status

    @property
    def headers(self) -> Headers:
        """End-to-end fields, names in lower case."""
        return self._headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            UpstreamTimeout: The next chunk did not come in time.
            UpstreamBroken: The connection ended before the body did, or the body is not in the
                coding it is said to be in.
        """
        decoder = self._decoder
        try:
            while data := await self._raw.read():
                if decoder is None:
                    yield data
                else:
                    for piece in decoder.decode(data):
                        yield piece
                        # One read may unpack to hundreds of megabytes; others want their turn.
                        await asyncio.sleep(0)
            if decoder is not None:
                decoder.finish()
        except TimeoutError:
            limit = self._chunk_timeout_seconds
            message = f"{self._upstream} sent no next chunk within {limit:g} s"
            raise self._failed(UpstreamTimeout(message, upstream=self._upstream)) from None
        except (Broken, BadCoding) as error:
            message = f"{self._upstream} broke off its answer: {error}"
            raise self._failed(UpstreamBroken(message, upstream=self._upstream)) from None

    async def aclose(self) -> None:
        """Release the connection; close it if the body has not come whole."""
        self._raw.close()

    def _failed(self, error: UpstreamError) -> UpstreamError:
        self._raw.close()
        self._on_failure(error)
        return error
