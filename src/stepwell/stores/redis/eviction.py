"""What a server does when its memory is full."""

import re
from dataclasses import dataclass

from stepwell.core.errors import StoreError
from stepwell.stores.redis.scanning import Node


@dataclass(frozen=True, slots=True)
class Eviction:
    """A server's own settings."""

    max_bytes: int
    """0: it grows without bound."""
    policy: str
    """Such as ``volatile-lru``."""


async def eviction_of(node: Node) -> Eviction | None:
    """Return what a server has set; ``None``: it is down, or does not tell us."""
    try:
        told = await node.ask("INFO", "memory")
    except StoreError:
        return None
    text = told.decode(errors="replace") if isinstance(told, bytes) else ""
    bound = re.search(r"maxmemory:(\d+)", text)
    policy = re.search(r"maxmemory_policy:([\w-]+)", text)
    if bound is None or policy is None:
        return None
    return Eviction(int(bound[1]), policy[1])
