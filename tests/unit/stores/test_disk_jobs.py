"""Calls wait for each other where they may, and for nothing else."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from support.walk import Heard

from stepwell.core.clock import SystemClock
from stepwell.core.errors import StoreUnavailable
from stepwell.core.events import Event
from stepwell.stores.disk.jobs import Bounds, Job, Lane

LINGER_SECONDS = 0.1


class Batches:
    """A handler that notes which calls came together."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def handle(self, jobs: Sequence[Job[None]]) -> None:
        """Do nothing but count."""
        self.sizes.append(len(jobs))
        for job in jobs:
            job.result = job.work(None)

    def idle(self) -> None:
        """Have nothing to do."""

    def take_events(self) -> Sequence[Event]:
        """Tell of nothing."""
        return ()

    def close(self) -> None:
        """Have nothing to release."""


@pytest.fixture
def batches() -> Batches:
    """What is handled."""
    return Batches()


def make_lane(batches: Batches, linger_seconds: float = LINGER_SECONDS) -> Lane[None]:
    """Return a lane of which at most four calls are a batch."""
    return Lane(
        "lane",
        batches,
        bounds=Bounds(100, 2**20, 4, 2**20, StoreUnavailable),
        clock=SystemClock(),
        events=Heard(),
        poll_seconds=1.0,
        linger_seconds=linger_seconds,
    )


@pytest.fixture
async def lane(batches: Batches) -> AsyncIterator[Lane[None]]:
    """Calls of which at most four are a batch."""
    lane = make_lane(batches)
    yield lane
    await lane.aclose(10)


async def call(lane: Lane[None], *, patient: bool) -> None:
    """Make one call."""
    await lane.call(lambda _: None, timeout_seconds=10, patient=patient)


async def test_patient_calls_wait_for_others(lane: Lane[None], batches: Batches) -> None:
    """Those that come soon after the first share its batch."""
    first = asyncio.create_task(call(lane, patient=True))
    await asyncio.sleep(LINGER_SECONDS / 10)
    await asyncio.gather(first, call(lane, patient=True), call(lane, patient=False))
    assert batches.sizes == [3]


async def test_a_batch_has_its_bounds(lane: Lane[None], batches: Batches) -> None:
    """However many wait."""
    await asyncio.gather(*(call(lane, patient=True) for _ in range(9)))
    assert batches.sizes == [4, 4, 1]


async def test_other_calls_wait_for_none(batches: Batches) -> None:
    """They are handled at once, however long patient ones would wait."""
    lane = make_lane(batches, linger_seconds=3_600.0)
    await call(lane, patient=False)
    await lane.aclose(10)
    assert batches.sizes == [1]


async def test_what_waits_is_done_before_the_end(lane: Lane[None], batches: Batches) -> None:
    """Also what has just begun to wait."""
    waiting = asyncio.create_task(call(lane, patient=True))
    await asyncio.sleep(0)
    await lane.aclose(10)
    await waiting
    assert batches.sizes == [1]
