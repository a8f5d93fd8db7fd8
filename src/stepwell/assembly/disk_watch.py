"""How full the disk tier is, looked at now and then for the gauges."""

import asyncio
from contextlib import suppress

from stepwell.core.entry import Selector
from stepwell.core.errors import StoreError
from stepwell.core.names import Tier
from stepwell.stores.disk.store import DiskStore
from stepwell.telemetry import catalogue
from stepwell.telemetry.gauges import Gauges

INTERVAL_SECONDS = 10.0
"""A look is a walk over an index, some 0.2 s for a million entries, among the writes."""


class DiskWatch:
    """Keeps the disk tier's gauges up to date. One event loop."""

    def __init__(self, disk: DiskStore, gauges: Gauges) -> None:
        """Watch ``disk`` from now on; every worker sees the same tier."""
        self._disk = disk
        self._entries = self._bytes = 0
        gauges.watch(catalogue.ENTRIES, lambda: self._entries, Tier.DISK, shared=True)
        gauges.watch(catalogue.BYTES, lambda: self._bytes, Tier.DISK, shared=True)
        self._looking = asyncio.create_task(self._look_for_ever())

    async def aclose(self) -> None:
        """Stop watching."""
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    async def _look_for_ever(self) -> None:
        while True:
            with suppress(StoreError):  # Others hear of it; the gauges keep what was seen last.
                self._entries, self._bytes = await self._disk.measure(Selector())
            await asyncio.sleep(INTERVAL_SECONDS)
