"""Following a store."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from support.walk import Heard

from stepwell.core.changes import Change, Invalidated, Judged, Lost, Replaced
from stepwell.core.entry import Entry, Selector
from stepwell.core.errors import EmbeddingError, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.core.judgement import Judgement
from stepwell.core.names import Arrival, Partition, Position
from stepwell.keys.pair import pair_of
from stepwell.semantic import follower as module
from stepwell.semantic.denials import Denials
from stepwell.semantic.follower import SemanticFollower
from stepwell.testing.entries import make_entry, make_judgement, make_key, make_phrasing

HERE = Partition(bytes(32))


@dataclass
class HandStore:
    """A store whose arrivals and judgements the test writes."""

    entries: list[Entry] = field(default_factory=list)
    said: list[Judgement] = field(default_factory=list)
    failing: bool = False
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def arrived(self, after: Arrival, at_most: int) -> tuple[Sequence[Entry], Arrival]:
        if self.failing:
            raise StoreUnavailable("the disk is gone")
        found = self.entries[after : after + at_most]
        return found, Arrival(after + len(found))

    async def judge(self, judgement: Judgement) -> None:
        raise NotImplementedError

    async def judgements(self) -> Sequence[Judgement]:
        said = list(self.said)
        await self.gate.wait()
        return said


@dataclass
class HandLayer:
    """Notes what it learns."""

    learned: list[str] = field(default_factory=list)
    failing: bool = False

    async def learn_all(self, entries: Sequence[Entry]) -> None:
        if self.failing:
            raise EmbeddingError("still starting")
        self.learned += [entry.phrasing.text for entry in entries if entry.phrasing]


@dataclass
class HandRemovals:
    """Notes what it obeys."""

    obeyed: list[Change] = field(default_factory=list)

    def obey(self, change: Invalidated) -> None:
        self.obeyed.append(change)


class Bench:
    """A follower and what it follows."""

    def __init__(self) -> None:
        self.store, self.layer, self.removals = HandStore(), HandLayer(), HandRemovals()
        self.denials, self.events = Denials(), Heard()
        self.progress: list[int] = []
        self.follower = SemanticFollower(
            self.layer,  # type: ignore[arg-type]
            self.removals,
            self.denials,
            self.store,
            events=self.events,
            on_progress=self.progress.append,
        )

    def arrive(self, *texts: str) -> None:
        self.store.entries += [make_entry(text, phrasing=make_phrasing(text)) for text in texts]


def said(one: str, other: str) -> Judgement:
    """Return that the answer to one was wrong for the other."""
    return make_judgement(pair_of(HERE, one, other), make_key(one))


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until ``condition()`` holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (nobody tells of it)
            await asyncio.sleep(0.005)


async def test_all_that_came_is_learned_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there at the start, in batches, and what comes later."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    bench = Bench()
    bench.arrive(*(f"text {number}" for number in range(450)))
    bench.follower.start()
    await eventually(lambda: len(bench.layer.learned) == 450)
    bench.arrive("late")
    await eventually(lambda: bench.layer.learned[-1] == "late")
    assert bench.layer.learned[:450] == [f"text {number}" for number in range(450)]
    assert bench.progress[:3] == [200, 400, 450]
    await bench.follower.aclose()


async def test_failures_are_told_and_tried_again() -> None:
    """The place does not move while something could not be learned."""
    bench = Bench()
    bench.arrive("a")
    bench.layer.failing = True
    bench.follower.start()
    await eventually(lambda: bench.events.of(Degraded))
    assert bench.events.of(Degraded) == [Degraded("semantic.embedder", "still starting")]
    bench.layer.failing = False
    await eventually(lambda: bench.layer.learned == ["a"])
    bench.store.failing = True
    await eventually(lambda: len(bench.events.of(Degraded)) == 2)
    await bench.follower.aclose()


async def test_changes_of_the_feed() -> None:
    """Invalidations go to the index, judgements to the denials; a lost feed means all again."""
    bench = Bench()
    bench.arrive("a")
    gone = Invalidated(Position(1), Selector(key=make_key("a")))
    bench.follower.apply(gone)
    bench.follower.apply(Replaced(Position(2), make_key("b")))
    assert bench.removals.obeyed == [gone]
    bench.follower.start()
    await eventually(lambda: bench.layer.learned == ["a"])
    bench.follower.apply(
        Judged(Position(3), make_judgement(pair_of(HERE, "a", "b"), make_key("a")))
    )
    assert bench.denials.forbids(HERE, "a", "b")
    bench.follower.apply(Lost(Position(9)))
    await eventually(lambda: bench.layer.learned == ["a", "a"])
    await eventually(lambda: not bench.denials.forbids(HERE, "a", "b"))
    await bench.follower.aclose()


async def test_a_judgement_made_while_all_are_read_is_not_lost() -> None:
    """It may be in what was read, or not."""
    bench = Bench()
    bench.store.said.append(said("a", "b"))
    bench.store.gate.clear()
    bench.follower.start()
    await asyncio.sleep(0.01)
    bench.follower.apply(
        Judged(Position(1), make_judgement(pair_of(HERE, "c", "d"), make_key("c")))
    )
    bench.store.gate.set()
    await eventually(lambda: bench.denials.forbids(HERE, "a", "b"))
    assert bench.denials.forbids(HERE, "c", "d")
    await bench.follower.aclose()
