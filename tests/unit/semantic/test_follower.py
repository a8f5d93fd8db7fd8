"""Following a store."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from support.walk import Heard

from stepwell.core.changes import Invalidated, Judged, Lost, Replaced
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.errors import CorruptEntry, EmbeddingError, IndexUnavailable, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.core.judgement import Judgement
from stepwell.core.names import Arrival, CacheKey, Partition, Position, Tier
from stepwell.keys.pair import pair_of
from stepwell.semantic import follower as module
from stepwell.semantic.denials import Denials
from stepwell.semantic.follower import SemanticFollower
from stepwell.semantic.index.progress import NOTHING, Gap
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_judgement, make_key, make_phrasing

HERE = Partition(bytes(32))


@dataclass
class HandStore:
    """A store whose arrivals and judgements the test writes; also who reads its feed."""

    entries: list[Entry] = field(default_factory=list)
    said: list[Judgement] = field(default_factory=list)
    corrupt: set[CacheKey] = field(default_factory=set)
    failing: bool = False
    caught_up: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def arrived(self, after: Arrival, at_most: int) -> tuple[Sequence[Arrived], Arrival]:
        if self.failing:
            raise StoreUnavailable("the disk is gone")
        found = self.entries[after : after + at_most]
        arrived = [Arrived(entry.key, entry.expires_at) for entry in found]
        return arrived, Arrival(after + len(found))

    async def get(self, key: CacheKey) -> Entry | None:
        if key in self.corrupt:
            raise CorruptEntry("damaged")
        return next((entry for entry in self.entries if entry.key == key), None)

    async def judge(self, judgement: Judgement) -> None:
        raise NotImplementedError

    async def judgements(self) -> Sequence[Judgement]:
        said = list(self.said)
        await self.gate.wait()
        return said

    @property
    def tier(self) -> Tier:
        return Tier.DISK

    async def catch_up(self) -> bool:
        self.caught_up += 1
        return True

    def position(self) -> Position:
        return Position(7)


@dataclass
class HandIndex:
    """Holds keys, and notes what it obeys."""

    held: dict[CacheKey, float] = field(default_factory=dict)
    obeyed: list[tuple[Selector, Position]] = field(default_factory=list)
    gap: Gap | None = field(default_factory=lambda: Gap(NOTHING))
    flushed: list[Position] = field(default_factory=list)
    wants: bool = True
    failing: bool = False

    def close_gap(self, gap: Gap) -> None:
        if self.gap is gap:
            self.gap = None

    async def lacking(self, arrived: Sequence[Arrived]) -> Sequence[Arrived]:
        return [one for one in arrived if self.held.get(one.key, 0.0) < one.expires_at]

    def remove_where(self, selector: Selector, before: Position) -> None:
        self.obeyed.append((selector, before))

    async def maintain(self, position: Position) -> bool:
        assert position == Position(7)
        if self.failing:
            raise IndexUnavailable("nobody answers")
        return self.wants

    async def flush(self, position: Position) -> None:
        self.flushed.append(position)


@dataclass
class HandLayer:
    """Notes what it learns."""

    index: HandIndex
    learned: list[str] = field(default_factory=list)
    failing: bool = False

    async def learn_all(self, entries: Sequence[Entry]) -> None:
        if self.failing:
            raise EmbeddingError("still starting")
        for entry in entries:
            assert entry.phrasing is not None
            self.learned.append(entry.phrasing.text)
            self.index.held[entry.key] = entry.expires_at


class Bench:
    """A follower and what it follows."""

    def __init__(self) -> None:
        self.store, self.index, self.clock = HandStore(), HandIndex(), HandClock()
        self.layer = HandLayer(self.index)
        self.denials, self.events = Denials(), Heard()
        self.follower = SemanticFollower(
            self.layer,  # type: ignore[arg-type]
            self.index,
            (self.denials,),
            self.store,
            clock=self.clock,
            events=self.events,
        )

    def arrive(self, *texts: str, ttl_seconds: float = 3_600.0) -> None:
        now = self.clock.now()
        self.store.entries += [
            make_entry(text, created_at=now, ttl_seconds=ttl_seconds, phrasing=make_phrasing(text))
            for text in texts
        ]


def said(one: str, other: str) -> Judgement:
    """Return that the answer to one was wrong for the other."""
    return make_judgement(pair_of(HERE, one, other), make_key(one))


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until ``condition()`` holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (nobody tells of it)
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.02)


async def test_all_that_came_is_learned_in_order() -> None:
    """What was there at the start, in batches, which closes the gap; then what comes later."""
    bench = Bench()
    bench.arrive(*(f"text {number}" for number in range(450)))
    bench.follower.start(bench.store)
    assert not await bench.follower.wait_until_current(0.0)
    assert await bench.follower.wait_until_current(5.0)
    assert bench.index.gap is None
    assert bench.layer.learned == [f"text {number}" for number in range(450)]
    bench.arrive("late")
    await eventually(lambda: bench.layer.learned[-1] == "late")
    assert bench.store.caught_up > 2
    await bench.follower.aclose()
    assert bench.index.flushed == [7]


async def test_only_what_the_index_lacks_is_learned() -> None:
    """Not what it holds, has expired, is damaged, or has left."""
    bench = Bench()
    bench.arrive("held", "damaged", "new")
    bench.arrive("expired", ttl_seconds=0.0)
    bench.index.held[make_key("held")] = bench.store.entries[0].expires_at
    bench.store.corrupt.add(make_key("damaged"))
    bench.follower.start(bench.store)
    await eventually(lambda: bench.index.gap is None)
    assert bench.layer.learned == ["new"]
    await bench.follower.aclose()


async def test_what_was_lost_is_learned_again() -> None:
    """The index says that it lacks something."""
    bench = Bench()
    bench.arrive("a", "b")
    bench.follower.start(bench.store)
    await eventually(lambda: bench.index.gap is None)
    del bench.index.held[make_key("a")]
    bench.index.gap = Gap(NOTHING)
    await eventually(lambda: bench.index.gap is None)
    assert bench.layer.learned == ["a", "b", "a"]
    await bench.follower.aclose()


async def test_failures_are_told_and_tried_again() -> None:
    """The place does not move while something could not be learned."""
    bench = Bench()
    bench.arrive("a")
    bench.layer.failing = True
    bench.follower.start(bench.store)
    await eventually(lambda: bench.events.of(Degraded))
    assert bench.events.of(Degraded)[0] == Degraded("semantic.embedder", "still starting")
    bench.layer.failing = False
    await eventually(lambda: bench.layer.learned == ["a"])
    bench.store.failing = True
    await eventually(lambda: Degraded("store.disk", "the disk is gone") in bench.events.events)
    await bench.follower.aclose()


async def test_an_index_that_others_keep_is_given_nothing() -> None:
    """Until this gateway is to keep it; then all that came."""
    bench = Bench()
    bench.arrive("a")
    bench.index.wants = False
    bench.follower.start(bench.store)
    assert await bench.follower.wait_until_current(5.0)
    assert bench.layer.learned == []
    bench.index.failing = True
    await eventually(lambda: Degraded("semantic.index", "nobody answers") in bench.events.events)
    bench.index.failing, bench.index.wants = False, True
    await eventually(lambda: bench.layer.learned == ["a"])
    await bench.follower.aclose()


async def test_changes_of_the_feed() -> None:
    """Invalidations go to the index, judgements to the denials; a lost feed means all again."""
    bench = Bench()
    bench.arrive("a")
    bench.follower.apply(Invalidated(Position(1), Selector(key=make_key("a"))))
    bench.follower.apply(Replaced(Position(2), make_key("b")))
    assert bench.index.obeyed == [(Selector(key=make_key("a")), 1)]
    bench.follower.start(bench.store)
    await eventually(lambda: bench.index.gap is None)
    bench.follower.apply(Judged(Position(3), said("a", "b")))
    assert bench.denials.forbids(HERE, "a", "b")
    bench.index.held.clear()
    bench.follower.apply(Lost(Position(9)))
    await eventually(lambda: bench.layer.learned == ["a", "a"])
    assert not bench.denials.forbids(HERE, "a", "b")
    await bench.follower.aclose()


async def test_a_judgement_made_while_all_are_read_is_not_lost() -> None:
    """It may be in what was read, or not."""
    bench = Bench()
    bench.store.said.append(said("a", "b"))
    bench.store.gate.clear()
    bench.follower.start(bench.store)
    await asyncio.sleep(0.01)
    bench.follower.apply(Judged(Position(1), said("c", "d")))
    bench.store.gate.set()
    await eventually(lambda: bench.denials.forbids(HERE, "a", "b"))
    assert bench.denials.forbids(HERE, "c", "d")
    await bench.follower.aclose()


async def test_closing_what_was_never_started() -> None:
    """Does nothing."""
    bench = Bench()
    await bench.follower.aclose()
    assert bench.index.flushed == []
