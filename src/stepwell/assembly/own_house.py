"""A house in a program of its own: with an embedder that lives as long as it does."""

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stepwell.assembly.embedder import embedder_process
from stepwell.assembly.house import House, MakeTargets, Plan, build_house

if TYPE_CHECKING:
    from stepwell.embedding.supervisor import EmbedderProcess


@dataclass(frozen=True, slots=True)
class OwnHouse:
    """A house, and the process its embedder runs in, if it has a bundled one."""

    house: House
    _embedder: "EmbedderProcess | None"

    async def aclose(self) -> None:
        """Write what is pending, close the stores, stop the embedder."""
        try:
            await self.house.aclose()
        finally:
            await _stop(self._embedder)

    async def wait_until_current(self, timeout_seconds: float) -> None:
        """Wait, but no longer, until all entries are found by other words too."""
        if self._embedder is not None:
            await asyncio.to_thread(self._embedder.wait_until_serving, timeout_seconds)
        if self.house.semantic is not None:
            await self.house.semantic.follower.wait_until_current(timeout_seconds)


async def open_own_house(
    plan: Plan, make_targets: MakeTargets, *, by_meaning: bool = True
) -> OwnHouse:
    """Return the house that ``plan`` describes, with the embedder that its settings mean.

    Args:
        plan: Without an embedder.
        make_targets: Makes the model servers.
        by_meaning: With the semantic layer, if the settings mean one.

    Raises:
        ConfigError: A setting cannot be used.
        StoreUnavailable: The data directory cannot be used.
    """
    embedder = embedder_process(plan.settings, _ignore) if by_meaning else None
    try:
        if embedder is not None:
            plan = replace(plan, embedder=embedder.start())
        return OwnHouse(await build_house(plan, make_targets), embedder)
    except BaseException:
        await _stop(embedder)
        raise


async def _stop(embedder: "EmbedderProcess | None") -> None:
    if embedder is not None:
        await asyncio.to_thread(embedder.stop)


def _ignore(_: str) -> None:
    """Say nothing: what the embedder does is in the events."""
