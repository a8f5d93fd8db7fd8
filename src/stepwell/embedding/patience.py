"""Waiting for so long, on a loop that may be busy with others meanwhile.

A loop that has a thousand requests to read comes back late from every wait, and runs its timers
before it reads what has arrived. That is not the lateness of who was asked. So the time is spent in
parts, after each of which the loop has a look; a part counts as long as it was to be, however long
the loop took over it.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

V = TypeVar("V")

LOOKS = 4


async def late_after(seconds: float | None, futures: Iterable[asyncio.Future[Any]]) -> int:
    """Wait for ``futures``; return how many are not done when the time is over.

    Cancels nothing. Costs some 15 us.

    Args:
        seconds: ``None``: as long as it takes.
        futures: What is waited for.
    """
    waiting = set(futures)
    parts = (None,) if seconds is None else (seconds / LOOKS,) * LOOKS
    for part in parts:
        if waiting:
            _, waiting = await asyncio.wait(waiting, timeout=part)
    return len(waiting)


async def within(seconds: float | None, work: Coroutine[Any, Any, V]) -> V:
    """Return what ``work`` comes to in time; cancel it if it is late. Costs a task.

    Raises:
        TimeoutError: It is late.
    """
    task = asyncio.create_task(work)
    try:
        if await late_after(seconds, [task]):
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
