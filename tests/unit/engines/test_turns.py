"""Whose request the torch engine computes next, and who is refused when too many wait."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.core.errors import RequestError
from stepwell.core.names import Namespace
from stepwell.engines.torch.turns import Turns

TENANTS = [Namespace(bytes([number] * 16)) for number in range(3)]
HOG, ONE, OTHER = TENANTS


async def settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


@dataclass
class Crowd:
    """Requests that want a turn, and have it until they are told to end."""

    turns: Turns
    began: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    ends: dict[str, asyncio.Event] = field(default_factory=dict)

    async def ask(self, name: str, tenant: Namespace | None) -> None:
        self.ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, tenant))
        await settle()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await settle()

    async def leave(self, name: str) -> None:
        self.tasks[name].cancel()
        await settle()

    async def _run(self, name: str, tenant: Namespace | None) -> None:
        try:
            async with self.turns.turn(tenant):
                self.began.append(name)
                await self.ends[name].wait()
        except RequestError as error:
            self.refused.append(name if error.status == 429 else f"{name}: {error.status}")


async def crowd_of(names: Sequence[str], *, slots: int = 1, places: int = 8) -> Crowd:
    """Return a crowd that asked in this order; a name begins with its tenant's letter."""
    crowd = Crowd(Turns(slots, places))
    for name in names:
        await crowd.ask(name, {"h": HOG, "o": ONE, "x": OTHER}[name[0]])
    return crowd


async def test_tenants_are_computed_in_turn() -> None:
    crowd = await crowd_of(["h1", "h2", "h3", "h4", "o1", "o2", "x1"])
    assert (crowd.began, crowd.turns.waiting) == (["h1"], 6)
    for name in ("h1", "h2", "o1", "x1", "h3", "o2", "h4"):
        assert crowd.began[-1] == name
        await crowd.end(name)
    assert (crowd.turns.waiting, crowd.refused) == (0, [])
    await crowd.ask("o3", ONE)
    assert crowd.began[-1] == "o3"


async def test_one_tenant_may_have_all_places_and_loses_them_to_others() -> None:
    crowd = await crowd_of(["h0", *(f"h{number}" for number in range(1, 6))], places=4)
    assert (crowd.turns.waiting, crowd.refused) == (4, ["h5"])
    await crowd.ask("o1", ONE)
    assert crowd.refused == ["h5", "h4"]
    await crowd.ask("o2", ONE)
    assert crowd.refused == ["h5", "h4", "h3"]
    # They have as many each now: whoever comes on top is refused, but for a third tenant.
    await crowd.ask("o3", ONE)
    await crowd.ask("h6", HOG)
    assert crowd.refused == ["h5", "h4", "h3", "o3", "h6"]
    await crowd.ask("x1", OTHER)
    assert (crowd.refused[5:], crowd.turns.waiting) == (["h2"], 4)


async def test_nobody_may_wait() -> None:
    crowd = await crowd_of(["h1", "o1"], places=0)
    assert (crowd.began, crowd.refused) == (["h1"], ["o1"])


async def test_who_leaves_gives_up_place_and_turn() -> None:
    crowd = await crowd_of(["h1", "h2", "o1", "o2", "x1"])
    await crowd.leave("o1")
    await crowd.leave("x1")
    assert crowd.turns.waiting == 2
    await crowd.end("h1")
    await crowd.leave("h2")  # in the middle of its turn
    assert (crowd.began, crowd.turns.waiting) == (["h1", "h2", "o2"], 0)


async def test_who_leaves_at_the_moment_of_his_turn_passes_it_on() -> None:
    crowd = await crowd_of(["h1", "h2", "o1"])
    crowd.ends["h1"].set()
    await asyncio.sleep(0)  # h1 has passed it on, and h2 has not noticed
    crowd.tasks["h2"].cancel()
    await settle()
    assert crowd.began == ["h1", "o1"]


@dataclass(frozen=True)
class Step:
    """Something that happens in a crowd."""

    what: str
    whom: int
    moments: int
    """Of the event loop, before the next thing happens."""

    async def take(self, crowd: Crowd) -> None:
        names = list(crowd.tasks)
        if self.what == "ask" or not names:
            await crowd.ask(str(len(names)), TENANTS[self.whom % 3])
            return
        name = names[self.whom % len(names)]
        if self.what == "end":
            crowd.ends[name].set()
        else:
            crowd.tasks[name].cancel()
        for _ in range(self.moments):
            await asyncio.sleep(0)


STEPS = st.builds(
    Step, st.sampled_from(["ask", "ask", "end", "leave"]), st.integers(0, 20), st.integers(0, 4)
)


@pytest.mark.filterwarnings("error")
@given(slots=st.integers(1, 3), places=st.integers(0, 4), steps=st.lists(STEPS, max_size=40))
def test_no_slot_is_lost_or_given_twice(slots: int, places: int, steps: list[Step]) -> None:
    asyncio.run(no_slot_is_lost(slots, places, steps))


async def no_slot_is_lost(slots: int, places: int, steps: list[Step]) -> None:
    crowd = Crowd(Turns(slots, places))
    for step in steps:
        await step.take(crowd)
        running = [
            name
            for name in crowd.began
            if not crowd.tasks[name].done() and not crowd.ends[name].is_set()
        ]
        assert len(running) <= slots
        assert crowd.turns.waiting <= places
    for end in crowd.ends.values():
        end.set()
    await asyncio.gather(*crowd.tasks.values(), return_exceptions=True)
    assert crowd.turns.waiting == 0
    last = Crowd(crowd.turns)
    for number in range(slots + 1):
        await last.ask(str(number), None)
    assert len(last.began) == slots
    for number in range(slots + 1):
        await last.end(str(number))
