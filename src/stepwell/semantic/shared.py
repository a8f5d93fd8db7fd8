"""One run of the same work for all who want its result at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Run(Generic[V]):
    """Work under way, and who waits for it."""

    task: asyncio.Task[V]
    waiting: set[asyncio.Future[V]] = field(default_factory=set)

    def tell(self) -> None:
        """Tell all who wait what the work came to."""
        cancelled = self.task.cancelled()
        error = None if cancelled else self.task.exception()
        for waiter in self.waiting:
            if waiter.done():
                continue
            if cancelled:
                waiter.cancel()
            elif error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(self.task.result())


class Shared(Generic[K, V]):
    """Runs of work, by what tells them apart.

    A run is nobody's own: who leaves takes no other along, and only when the last one has left it
    is cancelled. What it raises, all who wait for it hear. Nothing is kept of a run that is over.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(self) -> None:
        """Begin with nothing under way."""
        self._runs: dict[K, _Run[V]] = {}

    async def of(self, key: K, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return what the run of ``key`` comes to; ``work`` begins one if none is under way.

        Costs a task: some 10 us for who begins, 2 for who joins.
        """
        run = self._runs.get(key) or self._begin(key, work)
        waiter: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        run.waiting.add(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            run.waiting.discard(waiter)
            if not run.waiting:
                self._end(key, run)
                run.task.cancel()
            raise

    def _begin(self, key: K, work: Callable[[], Coroutine[Any, Any, V]]) -> _Run[V]:
        run = self._runs[key] = _Run(asyncio.create_task(work()))

        def end(_: asyncio.Task[V]) -> None:
            self._end(key, run)
            run.tell()

        run.task.add_done_callback(end)
        return run

    def _end(self, key: K, run: _Run[V]) -> None:
        """Let nobody join any more."""
        if self._runs.get(key) is run:
            del self._runs[key]
