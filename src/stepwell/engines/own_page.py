"""The metrics page that a model server shows."""

import asyncio

from stepwell.core.errors import RequestError, UpstreamError
from stepwell.engines.token_sources import Forwards

MAX_PAGE_BYTES = 4 << 20

_OK = 200


async def metrics_page(server: Forwards, *, timeout_seconds: float) -> str | None:
    """Return the page of ``server``, its root; ``None`` if it is not to be had just now."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _read(server)
    except (TimeoutError, UpstreamError, RequestError):
        return None


async def _read(server: Forwards) -> str | None:
    reply = await server.forward("GET", "metrics", "", (), b"")
    page = bytearray()
    try:
        async for chunk in reply.chunks():
            page += chunk
            if len(page) > MAX_PAGE_BYTES:
                return None
    finally:
        await reply.aclose()
    return page.decode(errors="replace") if reply.status == _OK else None
