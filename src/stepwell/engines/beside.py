"""Work beside calls that do not wait for it, as tasks of asyncio."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stepwell.core.steering import Cancel

Done = TypeVar("Done")


class TasksBeside:
    """Implements `Beside`. One event loop; not thread-safe."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, Done], then: Callable[[Done], None]) -> Cancel:
        """Begin ``work``; see `Beside`. What it raises goes to the loop's exception handler."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def end(_: asyncio.Task[Done]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                then(task.result())

        task.add_done_callback(end)
        return task.cancel

    async def aclose(self) -> None:
        """Cancel what has not ended, and return when it has."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
