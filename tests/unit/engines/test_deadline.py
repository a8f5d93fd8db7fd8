"""Moments that are moved. The order of timers on one loop is what is checked, not their speed."""

import asyncio

from stepwell.engines.deadline import Deadline

STEP_SECONDS = 0.01


async def after(seconds: float) -> None:
    """Return once another deadline, set just now, has passed."""
    passed = asyncio.Event()
    deadline = Deadline(passed.set)
    deadline.set(seconds)
    await passed.wait()
    deadline.close()


async def test_passes_once() -> None:
    """And can be set again."""
    calls: list[int] = []
    deadline = Deadline(lambda: calls.append(1))
    for count in (1, 2):
        deadline.set(STEP_SECONDS)
        await after(3 * STEP_SECONDS)
        assert len(calls) == count


async def test_moved_to_a_later_moment_it_waits() -> None:
    """The timer of the earlier moment goes off in vain."""
    calls: list[int] = []
    deadline = Deadline(lambda: calls.append(1))
    deadline.set(STEP_SECONDS)
    deadline.set(4 * STEP_SECONDS)
    await after(2 * STEP_SECONDS)
    assert calls == []
    await after(4 * STEP_SECONDS)
    assert calls == [1]


async def test_moved_to_an_earlier_moment_it_hurries() -> None:
    """The timer of the later moment is not waited for."""
    passed = asyncio.Event()
    deadline = Deadline(passed.set)
    deadline.set(600)
    deadline.set(STEP_SECONDS)
    await passed.wait()
    deadline.close()


async def test_cleared_or_closed_it_does_not_pass() -> None:
    """Whether its timer is left or not."""
    calls: list[int] = []
    cleared, closed = Deadline(lambda: calls.append(1)), Deadline(lambda: calls.append(2))
    for deadline in (cleared, closed):
        deadline.set(STEP_SECONDS)
    cleared.clear()
    closed.close()
    await after(3 * STEP_SECONDS)
    assert calls == []
    cleared.set(STEP_SECONDS)
    await after(3 * STEP_SECONDS)
    assert calls == [1]
