"""Several processes that share a store compute each text once, and none waits for a dead one."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from support.embedding_faults import ClaimBoard, FaultyCache, FaultyStore
from support.embedding_provider import KIND, FakeProvider, Heard, model

from stepwell.core.embedding_events import Source
from stepwell.core.errors import StoreUnavailable
from stepwell.embedding.cache.cache import Batch, EmbeddingCache
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.provider import Refused
from stepwell.embedding.cache.tiers import Stores
from stepwell.testing.clock import HandClock


class Fleet:
    """Some caches over the same stores."""

    def __init__(self, size: int) -> None:
        self.clock = HandClock()
        self.events = Heard()
        self.full = FaultyStore(self.clock)
        self.fast = FaultyCache()
        self.board = ClaimBoard(self.clock)
        self.caches = [
            EmbeddingCache(
                self.events,
                stores=Stores((self.fast,), self.full, self.board.member()),
                clock=self.clock,
                pause=self.pause,
            )
            for _ in range(size)
        ]

    async def pause(self, seconds: float) -> None:
        """Let the others run, and time pass."""
        await asyncio.sleep(0)
        self.clock.seconds += seconds


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet(3)
    yield fleet
    fleet.full.faults.back()
    for cache in fleet.caches:
        await cache.aclose()


def assert_right(batch: Batch, texts: list[str]) -> None:
    assert np.array_equal(batch.vectors(), np.stack([model(text) for text in texts]))


@pytest.mark.parametrize("callers", [8, 64])
async def test_each_text_is_computed_once_in_all_processes(fleet: Fleet, callers: int) -> None:
    provider = FakeProvider()
    batches = [[f"{number % 7}", f"{number % 5}", "all"] for number in range(callers)]
    got = await asyncio.gather(
        *(
            fleet.caches[number % 3].get_many(KIND, batch, provider)
            for number, batch in enumerate(batches)
        )
    )
    for texts, batch in zip(batches, got, strict=True):
        assert_right(batch, texts)
    assert set(provider.sent.values()) == {1}
    for cache in fleet.caches:
        await cache.flush()
    assert fleet.board.claimed == {}


async def test_what_another_has_computed_is_shared(fleet: Fleet) -> None:
    provider = FakeProvider()
    provider.gate.clear()
    first = asyncio.create_task(fleet.caches[0].get_many(KIND, ["a"], provider))
    await provider.started.wait()
    second = asyncio.create_task(fleet.caches[1].get_many(KIND, ["a"], provider))
    for _ in range(20):
        await asyncio.sleep(0)
    provider.gate.set()
    assert (await first).sources == (Source.ORIGIN,)
    assert (await second).sources == (Source.SHARED,)


async def test_one_that_died_is_waited_for_so_long_and_no_longer(fleet: Fleet) -> None:
    await fleet.board.member().claim(KIND.version, [text_digest("a")], 3_600_000)
    provider = FakeProvider()
    began = fleet.clock.seconds
    assert_right(await fleet.caches[0].get_many(KIND, ["a", "b"], provider), ["a", "b"])
    assert provider.calls == [("b",), ("a",)]
    assert 10 <= fleet.clock.seconds - began < 11


async def test_claims_of_what_failed_are_given_up(fleet: Fleet) -> None:
    provider = FakeProvider(errors=[Refused("no", status=400)])
    with pytest.raises(Refused):
        await fleet.caches[0].get_many(KIND, ["a"], provider)
    began = fleet.clock.seconds
    assert_right(await fleet.caches[1].get_many(KIND, ["a"], provider), ["a"])
    assert fleet.clock.seconds - began < 1


async def test_claims_of_what_nobody_waits_for_are_given_up(fleet: Fleet) -> None:
    provider = FakeProvider()
    provider.gate.clear()
    caller = asyncio.create_task(fleet.caches[0].get_many(KIND, ["a"], provider))
    await provider.started.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    provider.gate.set()
    began = fleet.clock.seconds
    assert_right(await fleet.caches[1].get_many(KIND, ["a"], provider), ["a"])
    assert fleet.clock.seconds - began < 1


async def test_claims_of_what_the_full_store_does_not_take_are_given_up(fleet: Fleet) -> None:
    fleet.full.faults.gone()
    await fleet.caches[0].get_many(KIND, ["a"], FakeProvider())
    for _ in range(10):
        await asyncio.sleep(0)
    assert fleet.caches[0].figures.pending_writes == 1
    assert fleet.board.claimed == {}


async def test_claims_that_fail_stop_nothing(fleet: Fleet) -> None:
    fleet.board.fault = StoreUnavailable("gone")
    provider = FakeProvider()
    assert_right(await fleet.caches[0].get_many(KIND, ["a"], provider), ["a"])
    assert "embeddings.claims" in fleet.events.degraded()
