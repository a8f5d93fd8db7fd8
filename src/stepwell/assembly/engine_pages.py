"""What engines that run here say of themselves: their metrics, and what went wrong in them."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from stepwell.assembly.house import Plan
from stepwell.assembly.upstreams import Unheard, root_of
from stepwell.core.events import Degraded
from stepwell.core.ports import EventSink
from stepwell.engines.http import HttpUpstream
from stepwell.engines.own_page import metrics_page, take_trouble

TIMEOUT_SECONDS = 1.0
"""Then the page goes without."""

LOOK_SECONDS = 10.0
"""How often it is asked whether something went wrong."""


class EnginePages:
    """The pages of all torch engines of a plan. One event loop."""

    def __init__(self, plan: Plan) -> None:
        self._servers = {
            name: HttpUpstream(
                name,
                root_of(plan.engines[name].base_url),
                identity="",
                events=Unheard(),
                api_key=plan.engines[name].api_key,
            )
            for name, table in plan.settings.upstreams.items()
            if table.kind == "torch"
        }

    async def read(self) -> Mapping[str, str]:
        """Return the pages that are to be had just now, by the names of the upstreams."""
        pages = await asyncio.gather(
            *[metrics_page(one, timeout_seconds=TIMEOUT_SECONDS) for one in self._servers.values()]
        )
        named = zip(self._servers, pages, strict=True)
        return {name: page for name, page in named if page is not None}

    async def take_troubles(self) -> Mapping[str, str]:
        """Return what went wrong since somebody asked last, by the names of the upstreams."""
        troubles = await asyncio.gather(
            *[take_trouble(one, timeout_seconds=TIMEOUT_SECONDS) for one in self._servers.values()]
        )
        named = zip(self._servers, troubles, strict=True)
        return {name: trouble for name, trouble in named if trouble}

    async def aclose(self) -> None:
        """Close the connections."""
        for server in self._servers.values():
            await server.aclose()


class EngineWatch:
    """Has events tell of engines that cannot keep what they computed. One event loop."""

    def __init__(self, pages: EnginePages, events: EventSink) -> None:
        """Watch from now on: a `Degraded` of the component ``kv.<upstream>`` for each trouble.

        All workers ask, and an engine tells one of them.
        """
        self._pages = pages
        self._events = events
        self._looking = asyncio.create_task(self._look_for_ever())

    async def aclose(self) -> None:
        """Stop watching."""
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    async def _look_for_ever(self) -> None:
        while True:
            for name, trouble in (await self._pages.take_troubles()).items():
                self._events.emit(Degraded(f"kv.{name}", trouble))
            await asyncio.sleep(LOOK_SECONDS)
