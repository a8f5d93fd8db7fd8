"""Lateness is that of who was asked, never that of a busy loop."""

import asyncio
import time

import pytest

from stepwell.embedding.patience import late_after, within


async def answered(after_turns: int) -> str:
    for _ in range(after_turns):
        await asyncio.sleep(0)
    return "answered"


async def test_what_is_there_in_time_is_returned() -> None:
    assert await within(10.0, answered(3)) == "answered"
    assert await within(None, answered(3)) == "answered"


async def test_what_is_late_is_cancelled() -> None:
    late = asyncio.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            late.set()

    with pytest.raises(TimeoutError):
        await within(0.01, wait_for_ever())
    await asyncio.wait_for(late.wait(), 5)


async def test_who_leaves_takes_the_work_along() -> None:
    stopped = asyncio.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    waiting = asyncio.create_task(within(10.0, wait_for_ever()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait_for(stopped.wait(), 5)


async def test_what_fails_fails() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await within(1.0, fail())


async def test_a_loop_that_was_busy_looks_once_more() -> None:
    """What arrived while it was busy for longer than the whole time is not late."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[None] = loop.create_future()
    waiting = asyncio.create_task(late_after(0.02, [arrived]))
    await asyncio.sleep(0)
    time.sleep(0.1)  # noqa: ASYNC251  (the loop is busy)
    # As bytes are that a loop reads only after its timers.
    loop.call_soon(loop.call_soon, loop.call_soon, arrived.set_result, None)
    assert await waiting == 0


async def test_only_what_is_missing_is_late() -> None:
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[None]] = [loop.create_future() for _ in range(3)]
    futures[0].set_result(None)
    assert await late_after(0.01, futures) == 2
    assert await late_after(0.01, []) == 0
    assert not any(future.cancelled() for future in futures)
