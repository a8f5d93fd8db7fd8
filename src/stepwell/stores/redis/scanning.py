"""Walks through the names on a server, a page at a time."""

import re
from collections.abc import AsyncIterator
from typing import Protocol

from stepwell.stores.redis.line import PATIENCE_SECONDS
from stepwell.stores.redis.link import Reply, Word
from stepwell.stores.redis.replies import integer, items, string

_COUNT = 500
"""Names a server is asked for at a time: half a millisecond in which it answers nobody else."""


class Node(Protocol):
    """One master."""

    async def ask(self, *words: Word, timeout_seconds: float | None = None) -> Reply:
        """Send a command."""
        ...


async def scan(node: Node, beginning: bytes) -> AsyncIterator[list[bytes]]:
    """Yield all names that begin so, some hundred at a time; a few may come twice.

    Those that come or go meanwhile may be among them or not (``SCAN``). Costs the server a
    microsecond a name, whatever it is called; nobody waits longer than for a page.

    Raises:
        StoreError: The server did not answer.
    """
    pattern = re.sub(rb"([*?\[\]\\^])", rb"\\\1", beginning) + b"*"
    cursor = 0
    while True:
        following, names = items(
            await node.ask(
                *("SCAN", cursor, "MATCH", pattern, "COUNT", _COUNT),
                timeout_seconds=PATIENCE_SECONDS,
            )
        )
        yield [string(name) for name in items(names)]
        if not (cursor := integer(following)):
            return
