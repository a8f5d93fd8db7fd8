"""The embedding cache against a plain model: a text's vector is a function of the text."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.embedding_faults import ClaimBoard, FaultyCache, FaultyStore
from support.embedding_provider import KIND, FakeProvider, Heard, model

from stepwell.core.embedding import ContentDigest
from stepwell.core.errors import EmbeddingError, StoreError
from stepwell.embedding.cache.cache import Bounds, EmbeddingCache
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.pace import Limits
from stepwell.embedding.cache.provider import NoAnswer, Refused, Reply
from stepwell.embedding.cache.tiers import Stores
from stepwell.embedding.cache.value import unpack
from stepwell.testing.clock import HandClock

TEXTS = ["", *"abcdefg", "天气", "x" * 50]
_BY_DIGEST = {text_digest(text): text for text in TEXTS}

texts = st.lists(st.sampled_from(TEXTS), max_size=12)


def _permuted(reply: Reply) -> Reply:
    order = list(range(len(reply.rows)))[::-1]
    return replace(reply, rows=[reply.rows[place] for place in order], indices=order)


def _short(reply: Reply) -> Reply:
    return replace(reply, rows=reply.rows[1:], indices=None)


def _long(reply: Reply) -> Reply:
    return replace(reply, rows=[*reply.rows, reply.rows[0]], indices=None)


def _repeated(reply: Reply) -> Reply:
    return replace(reply, indices=[0] * len(reply.rows))


def _not_finite(reply: Reply) -> Reply:
    return replace(reply, rows=[*reply.rows[:-1], np.full(8, np.nan)])


def _zero(reply: Reply) -> Reply:
    return replace(reply, rows=[np.zeros(8), *reply.rows[1:]])


def _uneven(reply: Reply) -> Reply:
    return replace(reply, rows=[np.ones(5), *reply.rows[1:]])


def _refused(_: Reply) -> Reply:
    raise Refused("too long", status=400)


def _busy(_: Reply) -> Reply:
    raise Refused("busy", status=429, retry_after_seconds=0.0)


def _broken(_: Reply) -> Reply:
    raise NoAnswer("died half way")


TWISTS = [_permuted, _short, _long, _repeated, _not_finite, _zero, _refused, _busy, _broken]


@dataclass(frozen=True)
class Ask:
    """A caller, in one of two processes."""

    process: int
    texts: Sequence[str]
    reads: bool
    writes: bool
    leaves: bool
    """Before it has its answer."""


@dataclass(frozen=True)
class Forget:
    """A deletion."""

    process: int
    texts: Sequence[str]


@dataclass(frozen=True)
class Works:
    """What works from now on."""

    fast: bool
    full: bool


Step = Ask | Forget | Works

mostly = st.sampled_from([True, True, True, False])
asks = st.builds(Ask, st.integers(0, 1), texts, mostly, mostly, mostly.map(lambda x: not x))
steps = st.one_of(
    asks, asks, asks, st.builds(Forget, st.integers(0, 1), texts), st.builds(Works, mostly, mostly)
)
lives = st.lists(st.lists(st.lists(steps, max_size=6), max_size=4), max_size=3)
"""Of both processes: each is some bursts of steps that overlap, and ends in a crash."""


@dataclass
class World:
    """Stores that outlive processes, and a provider that twists some of its replies."""

    memory_bytes: int
    clock: HandClock = field(default_factory=HandClock)
    owed: set[str] = field(default_factory=set)
    """Texts whose deletion failed: whoever wanted it has to come again."""

    def __post_init__(self) -> None:
        self.full = FaultyStore(self.clock)
        self.fast = FaultyCache()
        self.board = ClaimBoard(self.clock)

    def process(self) -> EmbeddingCache:
        """Return the cache of a new process."""
        return EmbeddingCache(
            Heard(),
            stores=Stores((self.fast,), self.full, self.board.member()),
            bounds=Bounds(memory_bytes=self.memory_bytes, pending_bytes=400),
            clock=self.clock,
            pause=self.pause,
        )

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.seconds += seconds
        await asyncio.sleep(0)

    async def take(self, step: Step, caches: list[EmbeddingCache], provider: FakeProvider) -> None:
        """Take a step; compare what comes of it."""
        match step:
            case Ask():
                await self._ask(step, caches[step.process], provider)
            case Forget(process, forgotten):
                try:
                    await caches[process].delete(KIND, forgotten)
                except StoreError:
                    self.owed.update(forgotten)
            case Works(fast, full):
                for store, works in ((self.fast, fast), (self.full, full)):
                    (store.faults.back if works else store.faults.gone)()

    async def _ask(self, ask: Ask, cache: EmbeddingCache, provider: FakeProvider) -> None:
        task = asyncio.create_task(
            cache.get_many(KIND, ask.texts, provider, reads=ask.reads, writes=ask.writes)
        )
        if ask.leaves:
            for _ in range(len(ask.texts)):
                await asyncio.sleep(0)
            task.cancel()
        try:
            batch = await task
        except (EmbeddingError, asyncio.CancelledError):
            return
        assert len(batch.items) == len(ask.texts)
        for text, embedding in zip(ask.texts, batch.embeddings, strict=True):
            assert np.array_equal(embedding.vector, model(text))

    async def assert_sound(self) -> None:
        """Every value is its text's, and what is in the fast store is in the full one."""
        self.full.faults.back()
        self.fast.faults.back()
        await self.process().delete(KIND, self.owed)
        held = self.full.held(KIND.version)
        for digest, value in held.items():
            assert_is_its_texts(digest, value)
        fast = {digest: value for (_, digest), value in self.fast.values.items()}
        assert fast.items() <= held.items()


def assert_is_its_texts(digest: ContentDigest, value: bytes) -> None:
    found = unpack(value, KIND)
    assert found is not None
    assert np.array_equal(found.vector, model(_BY_DIGEST[digest]))


@settings(deadline=None, max_examples=80)
@given(
    lives,
    st.lists(st.none() | st.sampled_from(TWISTS), max_size=12),
    st.sampled_from([0, 3000, 1 << 20]),
)
def test_every_vector_is_its_texts(
    life_stories: list[list[list[Step]]], twists: list[object], memory_bytes: int
) -> None:
    """Whatever was known, asked twice, overlapping, twisted, deleted, away or broken off."""
    world = World(memory_bytes)
    for bursts in life_stories:
        asyncio.run(_live(world, bursts, twists))
        world.board.claimed.clear()  # A minute later.
    asyncio.run(world.assert_sound())


async def _live(world: World, bursts: list[list[Step]], twists: list[object]) -> None:
    """Live, and crash: whatever is under way is lost."""
    provider = FakeProvider(Limits(max_texts=3, max_calls=2, max_bytes=60))
    pending = list(twists)

    def twist(reply: Reply) -> Reply:
        twisted = pending.pop(0) if pending else None
        return twisted(reply) if callable(twisted) else reply

    provider.twist = twist
    caches = [world.process(), world.process()]
    for burst in bursts:
        await asyncio.gather(*(world.take(step, caches, provider) for step in burst))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 1), texts), max_size=20))
def test_each_text_is_sent_once(batches: list[tuple[int, list[str]]]) -> None:
    """By two processes together, whatever they ask for at the same time."""

    async def run() -> None:
        world, provider = World(1 << 20), FakeProvider(Limits(max_texts=3))
        caches = [world.process(), world.process()]
        await asyncio.gather(
            *(caches[process].get_many(KIND, batch, provider) for process, batch in batches)
        )
        asked = {text for _, batch in batches for text in batch}
        assert dict(provider.sent) == dict.fromkeys(asked, 1)
        for cache in caches:
            await cache.aclose()

    asyncio.run(run())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 1), texts), max_size=6),
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4),
    st.integers(0, 30),
    st.integers(0, 1),
)
def test_nothing_deleted_comes_back(
    batches: list[tuple[int, list[str]]], deleted: list[str], turns: int, process: int
) -> None:
    """Whatever was asked for before, and however far it has come."""

    async def run() -> None:
        world, provider = World(1 << 20), FakeProvider(Limits(max_texts=2))
        caches = [world.process(), world.process()]
        # The number of deletions is learned from the store, so it must have been asked once.
        await caches[0].get_many(KIND, [TEXTS[0]], provider)
        await caches[1].get_many(KIND, [TEXTS[0]], provider)
        provider.gate.clear()
        asked = [
            asyncio.create_task(caches[number].get_many(KIND, batch, provider))
            for number, batch in batches
        ]
        for _ in range(50):  # All have been looked for, and some are being computed.
            await asyncio.sleep(0)
        provider.gate.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        await caches[process].delete(KIND, deleted)
        await asyncio.gather(*asked)
        for cache in caches:
            await cache.flush()
        digests = {text_digest(text) for text in deleted}
        assert not digests & world.full.held(KIND.version).keys()
        assert not digests & {digest for _, digest in world.fast.values}
        for cache in caches:
            await cache.aclose()

    asyncio.run(run())
