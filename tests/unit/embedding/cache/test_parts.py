"""Pace, memory, filling, and the cache as an embedder."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.embedding_faults import FaultyStore
from support.embedding_provider import KIND, WIDTH, FakeProvider, Heard, model, no_pause

from stepwell.core.embedding import Deletions
from stepwell.core.errors import (
    ConfigError,
    EmbeddingError,
    EmbeddingTimeout,
    StoreFull,
    StoreUnavailable,
)
from stepwell.core.names import Namespace
from stepwell.core.vectors import Embeddings, Unfit
from stepwell.embedding.cache import filling
from stepwell.embedding.cache.cache import Bounds, EmbeddingCache
from stepwell.embedding.cache.cached_embedder import CachedEmbedder
from stepwell.embedding.cache.filling import Filled, fill
from stepwell.embedding.cache.memory import Memory, Place
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.pace import Bucket, Limits, Pace
from stepwell.embedding.cache.provider import Refused, Reply
from stepwell.embedding.cache.tiers import Stores
from stepwell.embedding.cache.value import Embedding
from stepwell.testing.clock import HandClock

NEW = replace(KIND, revision="2")


def test_bucket_lends_and_is_paid_back() -> None:
    bucket = Bucket(60)
    assert bucket.take(60, 0.0) == 0
    assert bucket.take(1, 0.0) == 1
    assert bucket.take(1, 0.0) == 2
    assert bucket.take(1, 10.0) == 0
    assert bucket.take(60, 3600.0) == 0  # A minute's worth, however long nothing was taken.
    assert bucket.take(1, 3600.0) == 1


def test_bucket_takes_back() -> None:
    bucket = Bucket(60)
    bucket.take(60, 0.0)
    bucket.take(-30, 0.0)
    assert bucket.take(30, 0.0) == 0


@pytest.mark.parametrize(
    "limits",
    [
        {"max_texts": 0},
        {"max_bytes": 0},
        {"max_calls": 0},
        {"requests_per_minute": 0},
        {"tokens_per_minute": float("nan")},
        {"max_retries": -1},
        {"deadline_seconds": 0},
    ],
)
def test_limits_are_checked(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(limits))):
        Limits(**limits)


def test_pace_books_what_a_minute_allows() -> None:
    clock = HandClock(0.0)
    pace = Pace(Limits(requests_per_minute=60, tokens_per_minute=600), clock=clock)
    assert pace.book(600) == 0
    assert pace.book(10) == pytest.approx(1)
    pace.give_back(600)
    assert pace.book(10) == 0
    pace.hold(30.0)
    assert pace.book(10) == 30
    pace.hold(float("inf"))
    assert pace.book(10) == 60


async def test_provider_is_asked_at_its_pace() -> None:
    clock = HandClock(0.0)
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)
        clock.seconds += seconds

    limits = Limits(max_texts=1, max_calls=1, requests_per_minute=60, deadline_seconds=100.0)
    provider = FakeProvider(limits)
    provider.pace = Pace(limits, clock=clock, pause=pause)
    cache = EmbeddingCache(Heard())
    await cache.get_many(KIND, [str(number) for number in range(70)], provider)
    assert sum(waited) == pytest.approx(10)
    with pytest.raises(Refused) as refused:
        await cache.get_many(KIND, [f"more {number}" for number in range(200)], provider)
    assert refused.value.status == 429
    assert refused.value.retry_after_seconds is not None
    await cache.aclose()


async def test_provider_that_never_answers_is_given_up() -> None:
    provider = FakeProvider(Limits(deadline_seconds=0.01, max_retries=5))
    provider.gate.clear()
    cache = EmbeddingCache(Heard())
    with pytest.raises(EmbeddingError, match="deadline"):
        await cache.get_many(KIND, ["a"], provider)
    await cache.aclose()


def embedding(number: float = 1.0) -> Embedding:
    return Embedding(np.full(WIDTH, number, np.float32), 1)


def place(text: str) -> Place:
    return (KIND.fingerprint, text_digest(text))


def test_memory_keeps_what_was_used_last() -> None:
    memory = Memory(2_000, max_seconds=None, clock=HandClock())
    for text in "abc":
        memory.put({place(text): embedding()}, memory.deletions)
        memory.get(place("a"))
    memory.put({place("d"): embedding()}, memory.deletions)
    assert [text for text in "abcd" if memory.get(place(text)) is not None] == ["a", "c", "d"]


def test_memory_refuses_what_began_before_a_deletion() -> None:
    memory = Memory(100_000, max_seconds=None, clock=HandClock())
    began = memory.deletions
    memory.delete([place("a")])
    memory.put({place("a"): embedding(), place("b"): embedding()}, began)
    assert memory.get(place("a")) is None
    assert memory.get(place("b")) is not None
    memory.put({place("a"): embedding()}, memory.deletions)
    assert memory.get(place("a")) is not None


def test_memory_that_has_forgotten_deletions_refuses_all_before_them() -> None:
    memory = Memory(100_000, max_seconds=None, clock=HandClock())
    began = memory.deletions
    memory.delete(place(str(number)) for number in range(5_000))
    memory.put({place("other"): embedding()}, began)
    assert memory.get(place("other")) is None
    memory.put({place("other"): embedding()}, Deletions(memory.deletions))
    assert memory.get(place("other")) is not None


class Shop:
    """A cache over a full store with an old version in it."""

    def __init__(self, **bounds: Any) -> None:
        self.clock = HandClock()
        self.full = FaultyStore(self.clock)
        self.cache = EmbeddingCache(
            Heard(), stores=Stores((), self.full), bounds=Bounds(**bounds), pause=no_pause
        )

    async def fill(self, provider: FakeProvider, **more: Any) -> list[Filled]:
        """Fill the new version."""
        filling = fill(self.cache, self.full, KIND.version, NEW, provider, **more)
        return [filled async for filled in filling]


async def test_new_version_is_filled_hot_texts_first() -> None:
    shop, old, new = Shop(), FakeProvider(), FakeProvider(seed="new")
    for text in "abcdef":
        await shop.cache.get_many(KIND, [text], old)
        await shop.cache.flush()
        shop.clock.seconds += 86_400
    await shop.cache.get_many(NEW, ["d"], new)
    filled = await shop.fill(new, batch=2)
    assert filled == [Filled(2, 0), Filled(4, 0), Filled(5, 0)]
    assert new.calls == [("d",), ("f", "e"), ("c", "b"), ("a",)]
    batch = await shop.cache.get_many(NEW, list("abcdef"), new)
    assert np.array_equal(batch.vectors(), np.stack([model(text, "new") for text in "abcdef"]))
    assert await shop.fill(new) == []
    await shop.cache.aclose()


async def test_filling_keeps_owners_apart() -> None:
    shop, old, new = Shop(), FakeProvider(), FakeProvider()
    owner = Namespace(bytes(range(16)))
    await shop.cache.get_many(KIND, ["a"], old, owner=owner)
    await shop.cache.flush()
    await shop.fill(new)
    await shop.cache.get_many(NEW, ["a"], new, owner=owner)
    assert len(new.calls) == 1
    await shop.cache.get_many(NEW, ["a"], new)
    assert len(new.calls) == 2
    await shop.cache.aclose()


async def test_filling_goes_on_where_it_was_broken_off() -> None:
    shop, old = Shop(), FakeProvider()
    await shop.cache.get_many(KIND, list("abcdef"), old)
    await shop.cache.flush()
    new = FakeProvider(Limits(max_retries=0), errors=[None, Refused("down", status=503)])
    with pytest.raises(Refused):
        await shop.fill(new, batch=2)
    assert (await shop.fill(new, batch=2))[-1] == Filled(4, 0)
    assert sum(new.sent.values()) == 6 + 2
    await shop.cache.aclose()


async def test_text_that_is_refused_stops_no_other() -> None:
    shop, old, new = Shop(), FakeProvider(), FakeProvider()
    await shop.cache.get_many(KIND, ["a", "too long", "b", "c"], old)
    await shop.cache.flush()

    def refuse(reply: Reply) -> Reply:
        if "too long" in new.calls[-1]:
            raise Refused("too long", status=400)
        return reply

    new.twist = refuse
    assert (await shop.fill(new, batch=2))[-1] == Filled(3, 1)
    await shop.cache.aclose()


async def test_filling_needs_room_another_version_and_a_store_that_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop, provider = Shop(max_versions=1), FakeProvider()
    await shop.cache.get_many(KIND, ["a"], provider)
    await shop.cache.flush()
    with pytest.raises(StoreFull, match="retire"):
        await shop.fill(provider)
    with pytest.raises(ConfigError, match="older"):
        await anext(fill(shop.cache, shop.full, NEW.version, NEW, provider))
    await shop.cache.aclose()
    shop = Shop()
    await shop.cache.get_many(KIND, ["a"], provider)
    await shop.cache.flush()
    shop.full.faults.put = StoreUnavailable("gone")
    monkeypatch.setattr(filling, "_WRITTEN_WITHIN_SECONDS", 0.01)
    with pytest.raises(StoreUnavailable, match="takes no vectors"):
        await shop.fill(provider)
    shop.full.faults.back()
    await shop.cache.aclose()


class FakeEmbedder:
    """Counts what it is asked."""

    model_id = "fake@1"
    dimensions = WIDTH

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_closed = False

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return unit vectors; a blank text has none."""
        self.asked += texts
        await self.gate.wait()
        unfit = tuple(None if text.strip() else Unfit.EMPTY for text in texts)
        rows = [model(text) / np.linalg.norm(model(text)) for text in texts]
        rows = [row if why is None else row * 0 for row, why in zip(rows, unfit, strict=True)]
        return Embeddings(np.array(rows, np.float32), unfit)

    async def aclose(self) -> None:
        """Close."""
        self.is_closed = True


async def test_embedder_over_the_cache_is_the_same_embedder() -> None:
    bare, cache = FakeEmbedder(), EmbeddingCache(Heard())
    cached = CachedEmbedder(bare, cache)
    assert (cached.model_id, cached.dimensions) == (bare.model_id, bare.dimensions)
    texts = ["a", " ", "天气", "a", "\ud800"]
    expected = await FakeEmbedder().embed([*texts[:4], "\ufffd"])
    for _ in range(2):
        made = await cached.embed(texts)
        assert made.unfit == expected.unfit
        assert made.vectors.tobytes() == expected.vectors.tobytes()
    assert bare.asked == ["a", " ", "天气", "\ufffd", " "]
    assert (await cached.embed([])).vectors.shape == (0, WIDTH)
    await cached.aclose()
    assert bare.is_closed
    await cache.aclose()


async def test_embedder_over_the_cache_has_a_budget() -> None:
    bare, cache = FakeEmbedder(), EmbeddingCache(Heard())
    bare.gate.clear()
    cached = CachedEmbedder(bare, cache, budget_seconds=0.01)
    with pytest.raises(EmbeddingTimeout, match=r"1 texts were not ready within 0\.01 s"):
        await cached.embed(["a"])
    bare.gate.set()
    assert (await cached.embed(["a"])).unfit == (None,)
    await cache.aclose()
