"""Keeps the ledger up to date from a thread of its own, once a second."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from stepwell.core.clock import Clock, SystemClock
from stepwell.core.events import Degraded
from stepwell.core.ports import EventSink
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.ledger_session import LedgerSession
from stepwell.telemetry.meters import Meters
from stepwell.telemetry.series import Reading

_T = TypeVar("_T")

INTERVAL_SECONDS = 1.0
"""Between posts. What was counted since the last one is lost if the process is killed."""


class LedgerWriter:
    """Posts one worker's counts to the ledger, and reads the sums over all workers.

    For one event loop. The file is touched only in the thread, so the loop never waits for it;
    trouble with the file never reaches a caller: it is a `Degraded` event of the component
    ``telemetry.ledger``, and the counts go on in memory.
    """

    def __init__(
        self,
        path: Path,
        *,
        boot: str,
        meters: Meters,
        gauges: Gauges,
        events: EventSink,
        clock: Clock | None = None,
    ) -> None:
        """Connect; nothing happens before `start`, `flush` or `read`.

        Args:
            path: The ledger; its directory must exist.
            boot: Shared by all workers of one run of a server, and by nothing else.
            meters: Counters to post.
            gauges: Gauges to post.
            events: Told of trouble with the file.
            clock: The machine's, unless given.
        """
        self._session = LedgerSession(path, boot, clock or SystemClock())
        self._meters = meters
        self._gauges = gauges
        self._events = events
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stepwell-ledger")
        self._posting: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to post every `INTERVAL_SECONDS`."""
        self._posting = asyncio.get_running_loop().create_task(self._post_for_ever())

    async def flush(self) -> None:
        """Post now, and return when it is done."""
        counters, gauges = self._meters.values(), self._gauges.read().own
        await self._in_thread(lambda: self._session.post(counters, gauges))

    async def read(self) -> Reading:
        """Return what a metrics page shows: the sums over all workers of this boot.

        Exact for this worker; of others, what they had posted.
        """
        counters, levels = self._meters.values(), self._gauges.read()
        return await self._in_thread(lambda: self._session.read(counters, levels))

    async def aclose(self) -> None:
        """Post a last time and close the file. May be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._posting is not None:
            self._posting.cancel()
            with suppress(asyncio.CancelledError):
                await self._posting
        counters = self._meters.values()
        await self._in_thread(lambda: self._session.close(counters))
        self._thread.shutdown(wait=False)

    async def _post_for_ever(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.flush()
            except Exception as error:  # noqa: BLE001  (a gauge's fault must not end the posting)
                self._events.emit(Degraded("telemetry.ledger", repr(error)))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        result, problems = await asyncio.get_running_loop().run_in_executor(
            self._thread, lambda: (work(), self._session.take_problems())
        )
        for problem in problems:
            self._events.emit(problem)
        return result
