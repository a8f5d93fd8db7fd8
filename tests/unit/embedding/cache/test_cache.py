"""The walk: each text once, each vector to its text, whatever fails."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.embedding_faults import FaultyCache, FaultyStore
from support.embedding_provider import KIND, WIDTH, FakeProvider, Heard, model, no_pause

from stepwell.core.embedding import ContentDigest, VectorKind
from stepwell.core.embedding_events import (
    EmbeddingDrifted,
    EmbeddingInvalid,
    EmbeddingsComputed,
    EmbeddingsNotKept,
    EmbeddingsServed,
    Source,
)
from stepwell.core.errors import (
    ConfigError,
    EmbeddingError,
    RequestError,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from stepwell.core.names import Namespace
from stepwell.core.vectors import Unfit
from stepwell.embedding.cache.cache import Batch, Bounds, EmbeddingCache
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.pace import Limits
from stepwell.embedding.cache.provider import BadReply, Input, NoAnswer, Refused, Reply
from stepwell.embedding.cache.tiers import Stores
from stepwell.testing.clock import HandClock

OWNER, OTHER = Namespace(bytes(16 * [1])), Namespace(bytes(16 * [2]))
BUSY = Refused("busy", status=429, retry_after_seconds=2.0)
WRONG = Refused("too long", status=400, body=b"{}")


class House:
    """A cache over a fast store and a full one."""

    def __init__(self, **bounds: Any) -> None:
        self.clock = HandClock()
        self.events = Heard()
        self.fast = FaultyCache()
        self.full = FaultyStore(self.clock)
        self.bounds = Bounds(**bounds)
        self.cache = self.another()

    def another(self) -> EmbeddingCache:
        """Return a cache over the same stores, as another process would have it."""
        return EmbeddingCache(
            self.events,
            stores=Stores((self.fast,), self.full),
            bounds=self.bounds,
            clock=self.clock,
            pause=no_pause,
        )


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    yield house
    await house.cache.aclose()


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider()


def assert_right(batch: Batch, inputs: list[Any], seed: str = "") -> None:
    assert len(batch.items) == len(inputs)
    for given, embedding in zip(inputs, batch.embeddings, strict=True):
        assert np.array_equal(embedding.vector, model(given, seed))


async def test_duplicates_are_sent_once_and_given_in_order(
    house: House, provider: FakeProvider
) -> None:
    inputs = ["a", "b", "a", "", "b", "天气"]
    batch = await house.cache.get_many(KIND, inputs, provider)
    assert_right(batch, inputs)
    assert provider.calls == [("a", "b", "", "天气")]
    assert batch.sources == (Source.ORIGIN,) * 6


async def test_only_what_is_missing_is_sent(house: House, provider: FakeProvider) -> None:
    await house.cache.get_many(KIND, ["b", "d"], provider)
    batch = await house.cache.get_many(KIND, ["a", "b", "c", "d"], provider)
    assert_right(batch, ["a", "b", "c", "d"])
    assert provider.calls[1:] == [("a", "c")]
    assert batch.sources == (Source.ORIGIN, Source.MEMORY, Source.ORIGIN, Source.MEMORY)


async def test_each_tier_answers_for_the_next(house: House, provider: FakeProvider) -> None:
    await house.cache.get_many(KIND, ["a"], provider)
    await house.cache.flush()
    expected = [Source.REDIS, Source.DISK]
    for _ in range(2):
        batch = await house.another().get_many(KIND, ["a"], provider)
        assert_right(batch, ["a"])
        assert batch.sources == (expected.pop(0),)
        house.fast.values.clear()
    assert len(provider.calls) == 1


async def test_hit_in_the_full_store_fills_the_fast_one(
    house: House, provider: FakeProvider
) -> None:
    await house.cache.get_many(KIND, ["a"], provider)
    await house.cache.flush()
    before = dict(house.fast.values)
    house.fast.values.clear()
    other = house.another()
    await other.get_many(KIND, ["a"], provider)
    await other.aclose()
    assert house.fast.values == before


async def test_hit_and_the_miss_before_it_are_the_same_bits(house: House) -> None:
    for precision in ("f32", "f16", "i8"):
        kind = VectorKind("here", "model", precision=precision)
        provider = FakeProvider()
        miss = await house.cache.get_many(kind, ["a"], provider)
        await house.cache.flush()
        hit = await house.another().get_many(kind, ["a"], provider)
        assert hit.sources == (Source.REDIS,)
        assert miss.vectors().tobytes() == hit.vectors().tobytes()


async def test_kinds_share_no_vector(house: House) -> None:
    for field in ("provider", "model", "revision", "pooling", "prefix", "truncation", "parameters"):
        provider = FakeProvider(seed=field)
        changed: dict[str, Any] = {field: "x"}
        kind = replace(KIND, **changed)
        given = "xa" if field == "prefix" else "a"
        for _ in range(2):
            batch = await house.cache.get_many(kind, ["a"], provider)
            assert_right(batch, [given], seed=field)
        assert len(provider.calls) == 1


async def test_owners_share_no_vector(house: House, provider: FakeProvider) -> None:
    for owner in (None, OWNER, OTHER):
        for _ in range(2):
            assert_right(await house.cache.get_many(KIND, ["a"], provider, owner=owner), ["a"])
    assert len(provider.calls) == 3


async def test_texts_and_token_arrays_never_share_a_call(
    house: House, provider: FakeProvider
) -> None:
    inputs: list[Input] = ["ab", (97, 98), "c", (1,)]
    assert_right(await house.cache.get_many(KIND, inputs, provider), inputs)
    assert all(len({type(given) for given in call}) == 1 for call in provider.calls)


async def test_prefix_is_put_before_texts_and_refused_for_tokens(house: House) -> None:
    kind = replace(KIND, prefix="query: ")
    provider = FakeProvider()
    batch = await house.cache.get_many(kind, ["a"], provider)
    assert_right(batch, ["query: a"])
    with pytest.raises(RequestError, match="prefix"):
        await house.cache.get_many(kind, ["a", (1, 2)], provider)


async def test_unit_length_is_made_where_the_kind_says_so(
    house: House, provider: FakeProvider
) -> None:
    kind = replace(KIND, normalization="unit")
    batch = await house.cache.get_many(kind, ["a"], provider)
    assert np.linalg.norm(batch.vectors()) == pytest.approx(1.0)


async def test_calls_are_bounded(house: House) -> None:
    provider = FakeProvider(Limits(max_texts=3, max_bytes=100))
    inputs = ["x" * size for size in (40, 41, 42, 200, 1, 2, 3, 4)]
    assert_right(await house.cache.get_many(KIND, inputs, provider), inputs)
    assert [[len(str(text)) for text in call] for call in provider.calls] == [
        [40, 41],
        [42],
        [200],
        [1, 2, 3],
        [4],
    ]


async def test_concurrent_misses_are_sent_once_and_joined(
    house: House, provider: FakeProvider
) -> None:
    batches = [[f"{number % 7}", f"{number % 5}"] for number in range(64)]
    got = await asyncio.gather(*(house.cache.get_many(KIND, batch, provider) for batch in batches))
    for inputs, batch in zip(batches, got, strict=True):
        assert_right(batch, inputs)
    assert len(provider.calls) == 1
    assert set(provider.sent.values()) == {1}
    sources = [source for batch in got for source in batch.sources]
    assert set(sources) == {Source.ORIGIN, Source.SHARED}


async def test_one_who_leaves_takes_nothing_from_the_others(
    house: House, provider: FakeProvider
) -> None:
    provider.gate.clear()
    first = asyncio.create_task(house.cache.get_many(KIND, ["a", "b"], provider))
    second = asyncio.create_task(house.cache.get_many(KIND, ["b", "c"], provider))
    await provider.started.wait()
    first.cancel()
    await asyncio.sleep(0)
    provider.gate.set()
    assert_right(await second, ["b", "c"])
    assert provider.cancelled == 0


async def test_when_the_last_leaves_the_call_is_broken_off(
    house: House, provider: FakeProvider
) -> None:
    provider.gate.clear()
    callers = [
        asyncio.create_task(house.cache.get_many(KIND, ["a", name], provider)) for name in "bc"
    ]
    await provider.started.wait()
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    # Whoever comes now does not wait for what is being broken off.
    provider.gate.set()
    assert_right(await house.cache.get_many(KIND, ["a"], provider), ["a"])
    assert provider.cancelled == 1


async def test_what_nobody_waits_for_is_not_sent(house: House) -> None:
    provider = FakeProvider(Limits(max_calls=1))
    provider.gate.clear()
    first = asyncio.create_task(house.cache.get_many(KIND, ["a"], provider))
    await provider.started.wait()
    second = asyncio.create_task(house.cache.get_many(KIND, ["b", "c"], provider))
    third = asyncio.create_task(house.cache.get_many(KIND, ["c", "d"], provider))
    await asyncio.sleep(0.001)
    second.cancel()
    await asyncio.sleep(0)
    provider.gate.set()
    await asyncio.gather(first, third)
    assert provider.calls == [("a",), ("c", "d")]


async def test_half_a_batch_that_failed_is_kept(house: House) -> None:
    provider = FakeProvider(Limits(max_texts=2, max_calls=1), errors=[None, WRONG])
    with pytest.raises(Refused) as refused:
        await house.cache.get_many(KIND, list("abcdef"), provider)
    assert (refused.value.status, refused.value.body) == (400, b"{}")
    assert_right(await house.cache.get_many(KIND, list("abcdef"), provider), list("abcdef"))
    assert provider.sent["a"] == provider.sent["b"] == 1
    assert provider.sent["c"] == 2
    # Nothing more was sent once it was clear that the batch fails.
    assert provider.sent["e"] <= 2


async def test_provider_that_is_busy_is_asked_again(house: House) -> None:
    errors = [BUSY, NoAnswer("broke off")]
    provider = FakeProvider(errors=[*errors])
    assert_right(await house.cache.get_many(KIND, ["a"], provider), ["a"])
    assert len(provider.calls) == 3


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (BUSY, 3),
        (Refused("down", status=503), 3),
        (WRONG, 1),
        (Refused("who?", status=401), 1),
        (Refused("later", status=429, retry_after_seconds=1e9), 1),
        (RuntimeError("a bug"), 1),
    ],
)
async def test_retries_are_bounded(house: House, error: Exception, calls: int) -> None:
    provider = FakeProvider(errors=[error] * 10)
    with pytest.raises(type(error)) as raised:
        await house.cache.get_many(KIND, ["a"], provider)
    assert raised.value is error
    assert len(provider.calls) == calls


async def test_ones_refusal_is_not_anothers(house: House) -> None:
    provider = FakeProvider(Limits(max_calls=1))

    def refuse(reply: Reply) -> Reply:
        if "poison" in provider.calls[-1]:
            raise WRONG
        return reply

    provider.twist = refuse
    one, other = await asyncio.gather(
        house.cache.get_many(KIND, ["a", "poison"], provider),
        house.cache.get_many(KIND, ["b", "c"], provider),
        return_exceptions=True,
    )
    assert one is WRONG
    assert isinstance(other, Batch)
    assert_right(other, ["b", "c"])


@pytest.mark.parametrize(
    "twist",
    [
        lambda reply: replace(reply, rows=reply.rows[1:]),
        lambda reply: replace(reply, indices=[0] * len(reply.rows)),
        lambda reply: replace(reply, rows=[row[1:] for row in reply.rows[:1]] + [*reply.rows[1:]]),
        lambda reply: replace(reply, rows=[row * np.nan for row in reply.rows]),
        lambda reply: replace(reply, rows=[row * 0 for row in reply.rows]),
    ],
    ids=["short", "indices", "widths", "nan", "zero"],
)
async def test_nothing_of_a_wrong_reply_is_kept(
    house: House, provider: FakeProvider, twist: Any
) -> None:
    provider.twist = twist
    with pytest.raises(BadReply):
        await house.cache.get_many(KIND, ["a", "b"], provider)
    provider.twist = None
    assert_right(await house.cache.get_many(KIND, ["a", "b"], provider), ["a", "b"])
    await house.cache.flush()
    assert len(house.fast.values) == 2


async def test_permuted_reply_is_put_right(house: House, provider: FakeProvider) -> None:
    provider.twist = lambda reply: Reply(reply.rows[::-1], [3, 2, 1, 0])
    assert_right(await house.cache.get_many(KIND, list("abcd"), provider), list("abcd"))


async def test_bad_row_fails_its_text_and_the_others_are_kept(
    house: House, provider: FakeProvider
) -> None:
    zero = np.zeros(WIDTH)
    provider.twist = lambda reply: replace(reply, rows=[zero, *reply.rows[1:]])
    with pytest.raises(BadReply):
        await house.cache.get_many(KIND, ["a", "b"], provider)
    provider.twist = None
    assert_right(await house.cache.get_many(KIND, ["a", "b"], provider), ["a", "b"])
    assert provider.sent == {"a": 2, "b": 1}


async def test_text_without_a_vector_is_said_and_not_kept(
    house: House, provider: FakeProvider
) -> None:
    provider.twist = lambda reply: replace(reply, rows=[Unfit.EMPTY] * len(reply.rows))
    for _ in range(2):
        with pytest.raises(EmbeddingError, match="no vector: empty"):
            await house.cache.get_many(KIND, [" "], provider)
    assert len(provider.calls) == 2


async def test_stores_that_fail_cost_no_answer(house: House, provider: FakeProvider) -> None:
    house.fast.faults.gone()
    house.full.faults.gone()
    for inputs in (["a", "b"], ["b", "c"]):
        assert_right(await house.cache.get_many(KIND, inputs, provider), inputs)
    assert set(provider.sent.values()) == {1}
    assert "embeddings.disk" in house.events.degraded()
    house.full.faults.back()


async def test_what_was_made_meanwhile_is_written_when_the_full_store_is_back(
    house: House, provider: FakeProvider
) -> None:
    house.full.faults.gone()
    await house.cache.get_many(KIND, ["a", "b"], provider)
    await asyncio.sleep(0.01)
    assert not house.fast.values  # Nothing stands there that the full store has not.
    assert house.cache.figures.pending_writes == 2
    house.full.faults.back()
    await house.cache.flush()
    assert len(house.fast.values) == 2
    batch = await house.another().get_many(KIND, ["a", "b"], provider)
    assert set(batch.sources) == {Source.REDIS}


async def test_queue_is_bounded_and_what_is_dropped_is_counted() -> None:
    house = House(pending_bytes=200)
    provider = FakeProvider()
    house.full.faults.gone()
    await house.cache.get_many(KIND, ["a"], provider)
    await asyncio.sleep(0.01)
    await house.cache.get_many(KIND, [f"text {number}" for number in range(20)], provider)
    await asyncio.sleep(0.01)
    dropped = house.events.of(EmbeddingsNotKept)
    assert dropped == [EmbeddingsNotKept(21 - house.cache.figures.pending_writes, "crowded")]
    house.full.faults.back()
    await house.cache.aclose()


async def test_full_queue_holds_the_provider_up_while_the_store_works() -> None:
    house = House(pending_bytes=300)
    provider = FakeProvider(Limits(max_texts=2, max_calls=1))
    house.full.faults.gate.clear()
    caller = asyncio.create_task(
        house.cache.get_many(KIND, [f"text {number}" for number in range(40)], provider)
    )
    await asyncio.sleep(0.01)
    assert len(provider.calls) < 8
    house.full.faults.gate.set()
    await caller
    await house.cache.flush()
    assert len(house.fast.values) == 40
    await house.cache.aclose()


async def test_damaged_value_is_a_miss_counted_and_mended(
    house: House, provider: FakeProvider
) -> None:
    await house.cache.get_many(KIND, ["a", "b"], provider)
    await house.cache.flush()
    digest = text_digest("a")
    house.full.faults.damage = {digest}
    house.fast.values[KIND.version, digest] = b"nonsense"
    other = house.another()
    for _ in range(2):
        batch = await other.get_many(KIND, ["a", "b"], provider)
        assert_right(batch, ["a", "b"])
    assert len(house.events.of(EmbeddingInvalid)) == 2
    assert provider.sent == {"a": 2, "b": 1}


async def test_no_more_versions_than_there_may_be() -> None:
    house = House(max_versions=1)
    provider = FakeProvider()
    await house.cache.get_many(KIND, ["a"], provider)
    other = replace(KIND, revision="2")
    for _ in range(2):
        assert_right(await house.cache.get_many(other, ["a"], provider), ["a"])
        await house.cache.flush()
    assert house.events.of(EmbeddingsNotKept) == [EmbeddingsNotKept(1, "versions")]
    assert {version for version, _ in house.fast.values} == {KIND.version}
    with pytest.raises(StoreFull, match="retire"):
        await house.cache.register(other)
    await house.full.retire(KIND.version)
    house.clock.seconds += 61
    await house.cache.get_many(other, ["b"], provider)
    await house.cache.flush()
    assert (other.version, text_digest("b")) in house.fast.values


async def test_version_that_was_retired_begins_anew(house: House, provider: FakeProvider) -> None:
    await house.cache.get_many(KIND, ["a"], provider)
    await house.cache.flush()
    await house.full.retire(KIND.version)
    for text in "bcd":
        await house.cache.get_many(KIND, [text], provider)
        await house.cache.flush()
    assert (await house.full.get(KIND.version, [text_digest("d")])).values


async def test_deleted_is_deleted_everywhere(house: House, provider: FakeProvider) -> None:
    await house.cache.get_many(KIND, ["a", "b"], provider)
    await house.cache.flush()
    assert await house.cache.delete(KIND, ["a", "a", "unknown"]) == 1
    batch = await house.cache.get_many(KIND, ["a", "b"], provider)
    assert_right(batch, ["a", "b"])
    assert batch.sources == (Source.ORIGIN, Source.MEMORY)


async def test_many_are_deleted_part_by_part(
    house: House, monkeypatch: pytest.MonkeyPatch, provider: FakeProvider
) -> None:
    """A store does one thing after the other: else all requests wait for the last of them."""
    texts = [str(number) for number in range(2_500)]
    await house.cache.get_many(KIND, texts, provider)
    await house.cache.flush()
    delete, parts = house.full.delete, list[int]()

    async def noted(version: str, digests: Sequence[ContentDigest]) -> int:
        parts.append(len(digests))
        return await delete(version, digests)

    monkeypatch.setattr(house.full, "delete", noted)
    assert await house.cache.delete(KIND, texts) == 2_500
    assert parts == [1_000, 1_000, 500]


async def test_what_is_deleted_while_it_is_computed_is_not_kept(
    house: House, provider: FakeProvider
) -> None:
    await house.cache.get_many(KIND, ["z"], provider)
    provider.gate.clear()
    provider.started.clear()
    caller = asyncio.create_task(house.cache.get_many(KIND, ["a", "b"], provider))
    await provider.started.wait()
    await house.cache.delete(KIND, ["a"])
    provider.gate.set()
    assert_right(await caller, ["a", "b"])
    await house.cache.flush()
    digests = [text_digest("a"), text_digest("b")]
    assert list((await house.full.get(KIND.version, digests)).values) == digests[1:]
    batch = await house.cache.get_many(KIND, ["a", "b"], provider)
    assert batch.sources == (Source.ORIGIN, Source.MEMORY)


async def test_what_another_process_deletes_meanwhile_is_not_kept(
    house: House, provider: FakeProvider
) -> None:
    await house.cache.get_many(KIND, ["z"], provider)
    await house.cache.flush()
    provider.gate.clear()
    provider.started.clear()
    caller = asyncio.create_task(house.cache.get_many(KIND, ["a"], provider))
    await provider.started.wait()
    await house.another().delete(KIND, ["a"])
    provider.gate.set()
    assert_right(await caller, ["a"])
    await house.cache.flush()
    assert not (await house.full.get(KIND.version, [text_digest("a")])).values
    assert (KIND.version, text_digest("a")) not in house.fast.values
    assert house.cache.figures.memory_entries == 1


async def test_deletion_that_could_not_be_done_is_said(
    house: House, provider: FakeProvider
) -> None:
    await house.cache.get_many(KIND, ["a"], provider)
    await house.cache.flush()
    house.full.faults.delete = StoreUnavailable("gone")
    with pytest.raises(StoreError, match="gone"):
        await house.cache.delete(KIND, ["a"])
    assert not house.fast.values


async def test_memory_answers_for_a_while_for_what_another_deleted(
    house: House, provider: FakeProvider
) -> None:
    await house.cache.get_many(KIND, ["a"], provider)
    await house.cache.flush()
    await house.another().delete(KIND, ["a"])
    assert (await house.cache.get_many(KIND, ["a"], provider)).sources == (Source.MEMORY,)
    house.clock.seconds += 60
    assert (await house.cache.get_many(KIND, ["a"], provider)).sources == (Source.ORIGIN,)


async def test_without_reads_everything_is_computed_for_this_caller(
    house: House, provider: FakeProvider
) -> None:
    for _ in range(2):
        batch = await house.cache.get_many(KIND, ["a"], provider, reads=False)
        assert batch.sources == (Source.ORIGIN,)
    assert (await house.cache.get_many(KIND, ["a"], provider)).sources == (Source.MEMORY,)


async def test_without_writes_nothing_is_kept(house: House, provider: FakeProvider) -> None:
    for _ in range(2):
        await house.cache.get_many(KIND, ["a"], provider, writes=False)
    await house.cache.flush()
    assert len(provider.calls) == 2
    assert not house.fast.values


async def test_provider_that_changed_its_model_is_found_out(
    house: House, provider: FakeProvider
) -> None:
    await house.cache.get_many(KIND, ["a"], provider)
    await house.cache.flush()
    assert provider.canaries == 1
    house.clock.seconds += 3600
    provider.pace.clock = house.clock
    await house.cache.get_many(KIND, ["b"], provider)
    await house.cache.flush()
    assert house.events.of(EmbeddingDrifted) == []
    other = House.another(house)
    changed = FakeProvider(seed="changed")
    assert_right(await other.get_many(KIND, ["c"], changed), ["c"], "changed")
    await other.flush()
    (drifted,) = house.events.of(EmbeddingDrifted)
    assert isinstance(drifted, EmbeddingDrifted)
    assert drifted.version == KIND.version
    assert other.figures.drifted == (KIND.version,)
    # Nothing old is served, and nothing new is kept, not even what was seen before the look.
    for _ in range(2):
        batch = await other.get_many(KIND, ["a", "c"], changed)
        assert_right(batch, ["a", "c"], "changed")
        assert set(batch.sources) == {Source.ORIGIN}
    assert (KIND.version, text_digest("c")) not in house.fast.values


@pytest.mark.parametrize(("normalization", "drifted"), [("as given", 1), ("unit", 0)])
async def test_provider_that_gives_other_lengths_is_found_out(
    house: House, normalization: str, drifted: int
) -> None:
    """A server that begins to make vectors of unit length, say; not where they are made so here."""
    kind = replace(KIND, normalization=normalization)
    await house.cache.get_many(kind, ["a"], FakeProvider())
    await house.cache.flush()
    other, shorter = house.another(), FakeProvider(twist=_of_unit_length)
    await other.get_many(kind, ["b"], shorter)
    await other.flush()
    assert (shorter.canaries, len(house.events.of(EmbeddingDrifted))) == (1, drifted)
    assert other.figures.drifted == (kind.version,) * drifted


def _of_unit_length(reply: Reply) -> Reply:
    rows = np.asarray(reply.rows, np.float32)
    return replace(reply, rows=[*(rows / np.linalg.norm(rows, axis=1, keepdims=True))])


async def test_provider_with_another_width_is_found_out_at_once(house: House) -> None:
    await house.cache.get_many(KIND, ["a", "b"], FakeProvider())
    wider = FakeProvider(width=16)
    batch = await house.cache.get_many(KIND, ["a", "c"], wider)
    assert batch.vectors().shape == (2, 16)
    assert set(batch.sources) == {Source.ORIGIN}
    assert len(house.events.of(EmbeddingDrifted)) == 1
    await house.cache.flush()
    assert len(house.fast.values) == 2


async def test_old_vectors_of_another_width_are_left_alone_and_not_served(house: House) -> None:
    house.bounds = Bounds(canary_seconds=None)
    await house.cache.get_many(KIND, ["a", "b"], FakeProvider())
    await house.cache.flush()
    other, wider = house.another(), FakeProvider(width=16)
    await other.get_many(KIND, ["c"], wider)
    batch = await other.get_many(KIND, ["a", "c"], wider)
    assert batch.vectors().shape == (2, 16)
    assert other.figures.drifted == (KIND.version,)
    assert text_digest("a") in house.full.held(KIND.version)


async def test_canaries_that_cannot_be_had_stop_nothing(
    house: House, provider: FakeProvider
) -> None:
    def fail(reply: Reply) -> Reply:
        if provider.canaries:
            raise WRONG
        return reply

    provider.twist = fail
    assert_right(await house.cache.get_many(KIND, ["a"], provider), ["a"])
    await house.cache.flush()
    assert house.fast.values
    assert "embeddings.canary" in house.events.degraded()


async def test_what_is_told(house: House, provider: FakeProvider) -> None:
    await house.cache.get_many(KIND, ["aaa", "bb"], provider)
    await house.cache.get_many(KIND, ["aaa", "aaa", "c"], provider)
    computed = house.events.of(EmbeddingsComputed)
    assert [(event.texts, event.tokens) for event in computed] == [(2, 5), (1, 1)]
    served = house.events.of(EmbeddingsServed)
    assert [(event.texts, event.saved_tokens) for event in served] == [
        ({Source.ORIGIN: 2}, 0),
        ({Source.MEMORY: 1, Source.ORIGIN: 1}, 3),
    ]


async def test_tokens_are_kept_along(house: House, provider: FakeProvider) -> None:
    await house.cache.get_many(KIND, ["aaa", "bb"], provider)
    await house.cache.flush()
    assert (await house.another().get_many(KIND, ["aaa", "bb", "bb"], provider)).tokens == 7


async def test_odd_counts_of_tokens_do_no_harm(house: House, provider: FakeProvider) -> None:
    for tokens in (None, -5, 10**20):
        provider.twist = lambda reply, tokens=tokens: replace(reply, tokens=tokens)
        texts = [f"{tokens}", f"{tokens} more"]
        assert_right(await house.cache.get_many(KIND, texts, provider), texts)


async def test_no_inputs(house: House, provider: FakeProvider) -> None:
    batch = await house.cache.get_many(KIND, [], provider)
    assert batch.vectors().shape == (0, 0)
    assert provider.calls == []


async def test_large_texts_and_many_texts() -> None:
    cache, provider = EmbeddingCache(Heard()), FakeProvider()
    large = ["x" * (1 << 20), "y" * (1 << 20)]
    assert_right(await cache.get_many(KIND, large, provider), large)
    assert [len(call) for call in provider.calls] == [1, 1]
    many = [str(number % 5_000) for number in range(10_000)]
    assert_right(await cache.get_many(KIND, many, provider), many)
    assert set(provider.sent.values()) == {1}
    await cache.aclose()


async def test_memory_is_bounded() -> None:
    cache, provider = EmbeddingCache(Heard(), bounds=Bounds(memory_bytes=5_000)), FakeProvider()
    for number in range(100):
        await cache.get_many(KIND, [str(number)], provider)
    assert 0 < cache.figures.memory_bytes <= 5_000
    assert (await cache.get_many(KIND, ["99"], provider)).sources == (Source.MEMORY,)
    assert (await cache.get_many(KIND, ["0"], provider)).sources == (Source.ORIGIN,)
    await cache.aclose()


async def test_closing_breaks_off_and_closes(house: House, provider: FakeProvider) -> None:
    provider.gate.clear()
    caller = asyncio.create_task(house.cache.get_many(KIND, ["a"], provider))
    await provider.started.wait()
    await house.cache.aclose()
    with pytest.raises(EmbeddingError, match="closed"):
        await caller
    with pytest.raises(EmbeddingError, match="closed"):
        await house.cache.get_many(KIND, ["b"], provider)
    assert house.fast.is_closed
    assert house.full.is_closed
    await house.cache.aclose()


@pytest.mark.parametrize(
    "bounds", [{"memory_bytes": -1}, {"canary_seconds": 0}, {"memory_seconds": -1.0}]
)
def test_bounds_are_checked(bounds: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bounds))):
        Bounds(**bounds)
