"""A model server that is only started when somebody asks it."""

import asyncio
from collections.abc import Awaitable, Callable

from stepwell.core.errors import StepwellError, UpstreamUnreachable
from stepwell.core.ports import Call, Headers, Reply, Upstream


class LateUpstream:
    """An `Upstream` that starts its model server at the first call.

    What the cache answers needs no model server, so a program that asks little starts none. Who
    asks while it starts, waits. A start that failed is tried again by the next call.
    """

    def __init__(self, name: str, identity: str, start: Callable[[], Awaitable[Upstream]]) -> None:
        """Describe it.

        Args:
            name: As `Upstream.name`.
            identity: As `Upstream.identity`; known before the server runs.
            start: Starts it. What it returns is closed with this, and stops the server.
        """
        self.name = name
        self.identity = identity
        self._start = start
        self._starting: asyncio.Task[Upstream] | None = None

    async def send(self, call: Call) -> Reply:
        """As `Upstream.send`."""
        return await (await self._started()).send(call)

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        """As `Upstream.forward`."""
        return await (await self._started()).forward(method, path, query, headers, body)

    async def aclose(self) -> None:
        """Stop the server, if it was started. May be called twice."""
        starting, self._starting = self._starting, None
        if starting is None:
            return
        try:
            upstream = await starting
        except StepwellError:
            return  # Whoever asked has heard of it.
        await upstream.aclose()

    async def _started(self) -> Upstream:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        starting = self._starting
        try:
            # Shielded: others may wait for it too.
            return await asyncio.shield(starting)
        except StepwellError as error:
            if self._starting is starting:
                self._starting = None
            raise UpstreamUnreachable(str(error), upstream=self.name) from error
