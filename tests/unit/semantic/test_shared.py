"""The same work is done once for all who want it at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stepwell.semantic.shared import Shared


class Works:
    """Work that ends when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.stopped: list[str] = []
        self.results: dict[str, asyncio.Future[int]] = {}
        self.shared = Shared[str, int]()

    def of(self, key: str) -> asyncio.Task[int]:
        """Ask for the work of ``key``."""
        return asyncio.create_task(self.shared.of(key, self._work(key)))

    def _work(self, key: str) -> Callable[[], Coroutine[Any, Any, int]]:
        async def work() -> int:
            self.begun.append(key)
            self.results[key] = asyncio.get_running_loop().create_future()
            try:
                return await self.results[key]
            except asyncio.CancelledError:
                self.stopped.append(key)
                raise

        return work


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_all_who_ask_meanwhile_share_a_run() -> None:
    """Other work is its own; what is over is not kept."""
    works = Works()
    asking = [works.of(key) for key in ("a", "a", "b", "a")]
    await settle()
    assert works.begun == ["a", "b"]
    works.results["a"].set_result(1)
    works.results["b"].set_result(2)
    assert await asyncio.gather(*asking) == [1, 1, 2, 1]
    again = works.of("a")
    await settle()
    works.results["a"].set_result(3)
    assert await again == 3


async def test_who_began_may_leave() -> None:
    """Nobody who stays notices."""
    works = Works()
    first, second = works.of("a"), works.of("a")
    await settle()
    first.cancel()
    await settle()
    assert (first.cancelled(), works.stopped) == (True, [])
    works.results["a"].set_result(1)
    assert await second == 1


async def test_the_last_to_leave_stops_the_run() -> None:
    """And who comes then begins another, even while that one is still being stopped."""
    works = Works()
    asking = [works.of("a"), works.of("a")]
    await settle()
    for task in asking:
        task.cancel()
    await asyncio.sleep(0)
    late = works.of("a")
    await settle()
    assert (works.begun, works.stopped) == (["a", "a"], ["a"])
    works.results["a"].set_result(2)
    assert await late == 2


async def test_a_failure_is_everybodys() -> None:
    """The next to ask begins anew."""
    works = Works()
    asking = [works.of("a"), works.of("a")]
    await settle()
    works.results["a"].set_exception(ValueError("broken"))
    for task in asking:
        with pytest.raises(ValueError, match="broken"):
            await task
    again = works.of("a")
    await settle()
    works.results["a"].set_result(1)
    assert await again == 1
