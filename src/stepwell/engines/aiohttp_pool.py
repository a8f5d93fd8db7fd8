"""aiohttp's connection pool, made to say what it handed out and to refuse poisoned connections."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import aiohttp
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace


@dataclass(slots=True)
class Attempt:
    """One try at sending a request."""

    fresh: bool
    """Do not take a connection from the pool."""
    reused_at: float | None = None
    """Set by the pool: when, by the loop's clock, it handed out a connection that had carried a
    request before."""


_attempt: ContextVar[Attempt] = ContextVar("attempt")


@contextmanager
def attempt(*, fresh: bool) -> Iterator[Attempt]:
    """Let the pool see how this task's next request must be sent, and report how it was."""
    current = Attempt(fresh)
    token = _attempt.set(current)
    try:
        yield current
    finally:
        _attempt.reset(token)


class Pool(aiohttp.TCPConnector):
    """Keep-alive connections to one model server.

    aiohttp checks a kept connection only for being open. Bytes that a server sent while it
    lay idle stay in its queue, and a whole unsolicited response there is handed to the next
    request as its answer (seen with aiohttp 3.14.5; `test_upstream_pool.py` holds it). Such
    connections are dropped here. `_get` is private to aiohttp: the same test fails if it moves.
    """

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        current = _attempt.get()
        if current.fresh:
            return None
        while (connection := await super()._get(key, traces)) is not None:
            if connection.protocol is not None and not connection.protocol.should_close:
                current.reused_at = asyncio.get_running_loop().time()
                return connection
            connection.close()
        return None
