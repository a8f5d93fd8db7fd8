"""Waiting: for work on threads, in small steps, and before trying again what failed."""

import asyncio
from collections.abc import Callable, Iterator
from math import inf
from typing import TypeVar

from stepwell.core.clock import Clock

T = TypeVar("T")

_FIRST_SECONDS = 1.0
_LONGEST_SECONDS = 60.0


class Backoff:
    """How long not to try again, after failures: twice as long each time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds = _FIRST_SECONDS
        self._until = -inf

    def is_over(self) -> bool:
        """Return whether it may be tried now."""
        return self._clock.monotonic() >= self._until

    def lengthen(self) -> None:
        """Note a failure."""
        self._until = self._clock.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, _LONGEST_SECONDS)

    def reset(self) -> None:
        """Note that it worked."""
        self._seconds = _FIRST_SECONDS
        self._until = -inf


async def on_thread(work: Callable[[], T]) -> T:
    """Run ``work`` on a thread; if cancelled, wait for it all the same: it may hold a lock."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


async def in_steps(steps: Iterator[None]) -> None:
    """Run ``steps`` on the loop, and let others run after each."""
    for _ in steps:
        await asyncio.sleep(0)
