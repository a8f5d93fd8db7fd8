"""The nodes of a cluster that are asked: made when first needed, closed when they have gone."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

from stepwell.stores.redis.address import HostPort
from stepwell.stores.redis.node import Node


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    node: Node
    first_try: asyncio.Task[None]


class Nodes:
    """One `Node` for each endpoint. One event loop; safe for many tasks."""

    def __init__(self, make: Callable[[HostPort], Node]) -> None:
        """Have ``make`` make nodes; they are started here."""
        self._make = make
        self._entries: dict[HostPort, _Entry] = {}

    def endpoint_of(self, node: Node) -> HostPort | None:
        """Return where a node is; ``None`` if it has gone."""
        return next((at for at, entry in self._entries.items() if entry.node is node), None)

    async def ready(self, endpoint: HostPort) -> Node:
        """Return the node of an endpoint, once it has been tried for the first time.

        May be cancelled; the trying goes on.
        """
        entry = self._entries.get(endpoint)
        if entry is None:
            node = self._make(endpoint)
            entry = self._entries[endpoint] = _Entry(node, asyncio.create_task(node.start()))
        if not entry.first_try.done():
            await asyncio.wait([entry.first_try])
        return entry.node

    async def keep(self, endpoints: Collection[HostPort], grace_seconds: float) -> None:
        """Close all other nodes, once what they are being asked had that time to be answered."""
        gone = [endpoint for endpoint in self._entries if endpoint not in endpoints]
        if gone:
            entries = [self._entries.pop(endpoint) for endpoint in gone]
            try:
                await asyncio.sleep(grace_seconds)
            finally:
                await _close(entries)

    async def aclose(self) -> None:
        """Close all nodes. May be called twice."""
        entries = tuple(self._entries.values())
        self._entries.clear()
        await _close(entries)


async def _close(entries: Collection[_Entry]) -> None:
    for entry in entries:
        entry.first_try.cancel()
        await asyncio.wait([entry.first_try])
        await entry.node.aclose()
