"""Hands a model server's KV events on, for as long as the gateway runs. Needs `pyzmq`."""

import asyncio
from collections.abc import Callable

from zmq.asyncio import Context

from stepwell.core.kv_events import KvEvent
from stepwell.engines.kv_event_stream import EventSource, KvEventStream


class KvListener:
    """One server's events to whoever wants them. One event loop."""

    def __init__(self, source: EventSource, take: Callable[[KvEvent], None]) -> None:
        """Begin to listen, in the background.

        Args:
            source: Where the server publishes.
            take: Called for each event, in order, on the event loop. Must not raise.
        """
        self._context = Context(io_threads=1)
        self._stream = KvEventStream(self._context, source)
        self._task = asyncio.create_task(self._listen(take))

    async def aclose(self) -> None:
        """Stop. May be called twice."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._context.term()

    async def _listen(self, take: Callable[[KvEvent], None]) -> None:
        async with self._stream as stream:
            async for event in stream:
                take(event)
