"""An index that a server searches, over a hand-made server and store."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from support.points import make_id, make_point, make_vectors, texts
from support.walk import Heard

from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.errors import CorruptEntry, IndexUnavailable, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Vector
from stepwell.semantic.index.served import DUE_SECONDS, ServedIndex
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry

VECTOR = make_vectors(1)[0]


@dataclass
class HandServer:
    """Keeps points in a dictionary, and lets lead whom the test says."""

    points: dict[CacheKey, Point] = field(default_factory=dict)
    failing: bool = False
    chosen: bool = True
    asked_to_lead: int = 0
    resigned: int = 0
    swept: list[float] = field(default_factory=list)
    trouble: str = ""

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        self._fail()
        return [
            Candidate(one.key, one.text, None, one.expires_at, one.position, 1.0)
            for one in self.points.values()
        ]

    async def add(self, point: Point, vector: Vector) -> None:
        self._fail()
        self.points[point.key] = point

    async def remove(self, key: CacheKey) -> None:
        self._fail()
        self.points.pop(key, None)

    async def remove_where(self, selector: Selector, before: Position) -> None:
        self._fail()
        self.points.clear()

    async def remove_expired(self, now: float) -> None:
        self.swept.append(now)

    async def expiries(self, keys: Sequence[CacheKey]) -> Mapping[CacheKey, float]:
        self._fail()
        return {key: self.points[key].expires_at for key in keys if key in self.points}

    async def lead(self, seconds: float) -> bool:
        self._fail()
        self.asked_to_lead += 1
        return self.chosen

    async def resign(self) -> None:
        self.resigned += 1

    async def aclose(self) -> None:
        pass

    def _fail(self) -> None:
        if self.failing:
            raise StoreUnavailable("nobody answers")


class HandStore:
    """Answers as the test says: an entry, nothing, or an error."""

    def __init__(self) -> None:
        self.answer: Entry | Exception | None = None

    async def get(self, key: CacheKey) -> Entry | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Bench:
    """An index and its parts."""

    def __init__(self) -> None:
        self.server, self.store = HandServer(), HandStore()
        self.clock, self.events = HandClock(), Heard()
        self.index = ServedIndex(
            self.server, self.store, clock=self.clock, events=self.events, settle_seconds=0.02
        )

    async def found(self) -> list[str]:
        return texts(await self.index.search(make_id("partition"), VECTOR, 8, 0.0))

    async def maintain(self) -> bool:
        return await self.index.maintain(Position(0))


@pytest.mark.parametrize(
    ("answer", "goes"),
    [
        (None, True),
        (CorruptEntry("damaged"), True),
        (StoreUnavailable("not heard"), False),
        (make_entry("point"), False),
    ],
)
async def test_a_point_goes_when_the_store_says_so(
    answer: Entry | Exception | None,
    goes: bool,  # noqa: FBT001
) -> None:
    """Here it is left out at once; for all it goes only if the entry is gone indeed."""
    bench = Bench()
    await bench.index.add(make_point(), VECTOR)
    bench.store.answer = answer
    bench.index.remove(make_point().key)
    bench.index.remove(make_point().key)
    assert await bench.found() == []
    assert len(bench.server.points) == 1
    await asyncio.sleep(0.1)
    assert await bench.found() == ([] if goes else ["point"])
    assert len(bench.server.points) == (0 if goes else 1)


async def test_the_one_that_leads_keeps_it() -> None:
    """It is told of a gap once, when it begins; it sweeps; it alone obeys invalidations."""
    bench = Bench()
    await bench.index.add(make_point(), VECTOR)
    bench.server.chosen = False
    assert not await bench.maintain()
    bench.index.remove_where(Selector(), Position(9))
    await asyncio.sleep(0)
    assert (bench.index.gap, bench.server.swept, await bench.found()) == (None, [], ["point"])
    bench.server.chosen = True
    assert not await bench.maintain()  # not asked again yet
    bench.clock.seconds += DUE_SECONDS
    assert await bench.maintain()
    gap = bench.index.gap
    assert gap is not None
    bench.index.close_gap(gap)
    bench.clock.seconds += DUE_SECONDS
    assert await bench.maintain()
    assert bench.index.gap is None
    assert len(bench.server.swept) == 2
    bench.index.remove_where(Selector(), Position(9))
    await bench.index.flush(Position(0))
    assert await bench.found() == []
    assert (bench.server.asked_to_lead, bench.server.resigned) == (3, 1)


async def test_who_could_not_keep_it_begins_anew() -> None:
    """What went meanwhile nobody knows."""
    bench = Bench()
    assert await bench.maintain()
    assert bench.index.gap is not None
    bench.index.close_gap(bench.index.gap)
    bench.clock.seconds += DUE_SECONDS
    bench.server.failing = True
    with pytest.raises(IndexUnavailable, match="nobody answers"):
        await bench.maintain()
    bench.server.failing = False
    assert await bench.maintain()
    assert bench.index.gap is not None


async def test_failures() -> None:
    """Who waits hears of it; of what nobody waits for, the events."""
    bench = Bench()
    bench.server.failing = True
    with pytest.raises(IndexUnavailable):
        await bench.found()
    with pytest.raises(IndexUnavailable):
        await bench.index.add(make_point(), VECTOR)
    with pytest.raises(IndexUnavailable):
        await bench.index.lacking([Arrived(make_point().key, 1.0)])
    bench.index.remove(make_point().key)
    await asyncio.sleep(0.1)
    assert bench.events.of(Degraded) == [Degraded("semantic.index", "nobody answers")]


async def test_closing_waits_for_no_doubts() -> None:
    """What was in doubt stays, until somebody finds it again."""
    bench = Bench()
    await bench.index.add(make_point(), VECTOR)
    bench.index.remove(make_point().key)
    await bench.index.flush(Position(0))
    assert await bench.found() == ["point"]
    assert bench.server.resigned == 0
