"""What engines that run here count for themselves, for the gateway's metrics page."""

import asyncio
from collections.abc import Mapping

from stepwell.assembly.house import Plan
from stepwell.assembly.upstreams import Unheard, root_of
from stepwell.engines.http import HttpUpstream
from stepwell.engines.own_page import metrics_page

TIMEOUT_SECONDS = 1.0
"""Then the page goes without."""


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

    async def aclose(self) -> None:
        """Close the connections."""
        for server in self._servers.values():
            await server.aclose()
