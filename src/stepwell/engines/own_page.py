"""What a model server says of itself at routes of its own."""

import asyncio

from stepwell.core.errors import RequestError, UpstreamError
from stepwell.engines.token_sources import Forwards

MAX_PAGE_BYTES = 4 << 20

_OK = 200


async def metrics_page(server: Forwards, *, timeout_seconds: float) -> str | None:
    """Return the page of ``server``, its root; ``None`` if it is not to be had just now."""
    return await _read(server, "GET", "metrics", timeout_seconds)


async def take_trouble(server: Forwards, *, timeout_seconds: float) -> str:
    """Return what went wrong last in an engine of ours, at its root; empty if nothing is known.

    The engine says it once.
    """
    return await _read(server, "POST", "trouble", timeout_seconds) or ""


async def _read(server: Forwards, method: str, path: str, timeout_seconds: float) -> str | None:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _text(server, method, path)
    except (TimeoutError, UpstreamError, RequestError):
        return None


async def _text(server: Forwards, method: str, path: str) -> str | None:
    reply = await server.forward(method, path, "", (), b"")
    page = bytearray()
    try:
        async for chunk in reply.chunks():
            page += chunk
            if len(page) > MAX_PAGE_BYTES:
                return None
    finally:
        await reply.aclose()
    return page.decode(errors="replace") if reply.status == _OK else None
