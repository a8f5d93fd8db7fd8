"""Letters between gateways: a list in Redis for each, which it empties as they come."""

import asyncio
from collections.abc import Callable

from stepwell.core.errors import ConfigError, StoreError
from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.line import PATIENCE_SECONDS, Line, Served
from stepwell.stores.redis.link import Reply
from stepwell.stores.redis.replies import items, string
from stepwell.stores.redis.scripts import DELIVER

KEPT_MILLISECONDS = 10_000
"""How long letters wait for a gateway that does not read them."""

_BLOCK_SECONDS = 1.0
_AT_ONCE = 100
_PAUSE_SECONDS = 0.2


class Post:
    """What one gateway sends and gets. One event loop; safe for many tasks."""

    def __init__(self, servers: Served, layout: Layout, *, address: str) -> None:
        """Read nothing yet; `start` does.

        Args:
            servers: Where the letters are.
            layout: Under which names.
            address: Nobody else's, and new with each process.
        """
        self._servers = servers
        self._layout = layout
        self._address = address
        self._reading: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """As `stepwell.core.ports.Post.address`."""
        return self._address

    def start(self, take: Callable[[bytes], None]) -> None:
        """As `stepwell.core.ports.Post.start`."""
        self._reading = asyncio.create_task(self._read_for_ever(take))

    async def send(self, to: str, letter: bytes, *, patience_seconds: float | None = None) -> None:
        """As `stepwell.core.ports.Post.send`. One script; bounded there."""
        await DELIVER.run(
            self._servers,
            (self._layout.inbox(to),),
            *(letter, KEPT_MILLISECONDS),
            timeout_seconds=patience_seconds,
        )

    async def aclose(self) -> None:
        """Stop reading. May be called twice."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None

    async def _read_for_ever(self, take: Callable[[bytes], None]) -> None:
        inbox = self._layout.inbox(self._address)
        while True:
            try:
                line = await self._servers.dial(inbox)
                try:
                    while True:
                        for letter in _letters(await self._next(line, inbox)):
                            take(letter)
                finally:
                    line.close()
            except (StoreError, ConfigError):
                # That the server fails is told by who follows its feed.
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _next(self, line: Line, inbox: bytes) -> Reply:
        return await line.ask(
            *("BLMPOP", _BLOCK_SECONDS, 1, inbox, "LEFT", "COUNT", _AT_ONCE),
            timeout_seconds=_BLOCK_SECONDS + PATIENCE_SECONDS,
        )


def _letters(told: Reply) -> list[bytes]:
    if told is None:
        return []
    _, letters = items(told)
    return [string(letter) for letter in items(letters)]
