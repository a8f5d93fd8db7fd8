"""A store without a place of its own."""

import pytest
from support.walk import Heard

from stepwell.core.entry import Arrived
from stepwell.core.judgement import Judgement
from stepwell.core.names import Arrival, PairId
from stepwell.stores import alone as module
from stepwell.stores.alone import Alone
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_judgement, make_key, make_phrasing


def make_alone() -> tuple[Alone, MemoryStore]:
    memory = MemoryStore(
        Lru(), max_entries=100, max_bytes=1 << 20, clock=HandClock(), events=Heard()
    )
    return Alone(memory), memory


async def test_arrivals_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phrased entries only; the oldest are forgotten when there are too many."""
    monkeypatch.setattr(module, "MAX_ARRIVALS", 4)
    alone, memory = make_alone()
    for name in ("a", "b", "c"):
        entry = make_entry(name, phrasing=make_phrasing(name))
        memory.put(entry)
        assert await alone.put(entry)
    await alone.put(make_entry("plain"))
    expires_at = make_entry().expires_at
    first, place = await alone.arrived(Arrival(0), 2)
    assert first == [Arrived(make_key(name), expires_at) for name in ("a", "b")]
    rest, last = await alone.arrived(place, 2)
    assert rest == [Arrived(make_key("c"), expires_at)]
    assert await alone.arrived(last, 2) == ([], last)
    assert await alone.get(make_key("a")) == memory.get(make_key("a"))
    for name in ("d", "e"):
        await alone.put(make_entry(name, phrasing=make_phrasing(name)))
    kept, _ = await alone.arrived(Arrival(0), 10)
    assert [arrived.key for arrived in kept] == [make_key(name) for name in ("c", "d", "e")]


async def test_judgements_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest of a pair, the oldest forgotten first."""
    monkeypatch.setattr(module, "MAX_JUDGEMENTS", 2)
    alone, _ = make_alone()

    def judged(number: int, similarity: float = 0.9) -> Judgement:
        return make_judgement(PairId(bytes([number] * 16)), make_key("entry"), similarity)

    for judgement in (judged(1), judged(2), judged(1, 0.8), judged(3)):
        await alone.judge(judgement)
    assert await alone.judgements() == [judged(1, 0.8), judged(3)]
    assert len(await alone.read()) == 4
