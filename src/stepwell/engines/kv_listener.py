"""Hands a model server's KV events on, for as long as the gateway runs. Needs `pyzmq`."""

import asyncio
from collections.abc import Callable

from zmq.asyncio import Context

from stepwell.core.kv_events import KvEvent
from stepwell.engines.kv_event_stream import EventSource, KvEventStream

RETRY_SECONDS = 10.0


class KvListener:
    """One server's events to whoever wants them. One event loop."""

    def __init__(
        self, source: EventSource, take: Callable[[KvEvent], None], say: Callable[[str], None]
    ) -> None:
        """Begin to listen, in the background.

        Args:
            source: Where the server publishes.
            take: Called for each event, in order, on the event loop.
            say: Hears why nothing is heard just now. It is tried again.
        """
        self._context = Context(io_threads=1)
        self._source = source
        self._task = asyncio.create_task(self._listen(take, say))

    async def aclose(self) -> None:
        """Stop. May be called twice."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._context.term()

    async def _listen(self, take: Callable[[KvEvent], None], say: Callable[[str], None]) -> None:
        while True:
            try:
                async with KvEventStream(self._context, self._source) as stream:
                    async for event in stream:
                        take(event)
            except Exception as error:  # noqa: BLE001  (whatever it is, requests go on)
                say(f"KV events at {self._source.endpoint}: {error or type(error).__name__}")
            await asyncio.sleep(RETRY_SECONDS)
