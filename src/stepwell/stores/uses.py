"""Which vectors were used, for a store that writes it down once a day."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from stepwell.core.clock import Clock
from stepwell.core.embedding import ContentDigest
from stepwell.core.errors import StoreError

DAY_SECONDS: Final = 86_400

_AT_MOST: Final = 50_000
"""Noted in a day; further ones keep the day they had. Some 5 MB."""
_WRITE_SECONDS: Final = 5.0

Write = Callable[[str, Sequence[ContentDigest], int], Awaitable[None]]
"""Takes version, digests, and the day, counted since the Unix epoch."""


class Uses:
    """Notes uses in memory, and has them written within seconds. One event loop.

    A process writes a use of a vector at most once a day. What cannot be written is forgotten.
    """

    def __init__(self, write: Write, clock: Clock) -> None:
        """Note nothing yet.

        Args:
            write: Raises `StoreError`.
            clock: The time.
        """
        self._write = write
        self._clock = clock
        self._day = 0
        self._noted: set[int] = set()
        self._pending: defaultdict[str, list[ContentDigest]] = defaultdict(list)
        self._writing: asyncio.Task[None] | None = None

    def note(self, version: str, digests: Iterable[ContentDigest]) -> None:
        """Note that ``digests`` were used. Costs some 200 ns each; waits for nothing."""
        today = day_of(self._clock)
        if today != self._day:
            self._day = today
            self._noted.clear()
        if len(self._noted) >= _AT_MOST:
            return
        for digest in digests:
            place = hash((version, digest))
            if place not in self._noted:
                self._noted.add(place)
                self._pending[version].append(digest)
        if self._pending and self._writing is None:
            self._writing = asyncio.create_task(self._write_later())

    async def aclose(self) -> None:
        """Write what was noted. May be called twice."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        await self._write_all()

    async def _write_later(self) -> None:
        while self._pending:
            await asyncio.sleep(_WRITE_SECONDS)
            await self._write_all()
        self._writing = None

    async def _write_all(self) -> None:
        pending, self._pending = self._pending, defaultdict(list)
        for version, digests in pending.items():
            try:
                await self._write(version, digests, self._day)
            except StoreError:
                return  # The store tells of its trouble itself.


def day_of(clock: Clock) -> int:
    """Return the day, counted since the Unix epoch."""
    return int(clock.now() // DAY_SECONDS)
