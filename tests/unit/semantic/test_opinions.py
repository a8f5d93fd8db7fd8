"""Second opinions: once for each pair, for all who ask, and for a while after."""

import asyncio
from dataclasses import dataclass, field

import pytest
from support.judges import Deaf, HandOpinion
from support.walk import Heard, settle

from stepwell.core.errors import UpstreamBroken
from stepwell.core.events import Degraded
from stepwell.core.judging import Respondent
from stepwell.semantic import opinions
from stepwell.semantic.acceptance.verdict import Refused
from stepwell.semantic.opinions import REMEMBERED_SECONDS, Opinions
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_phrasing

WHOM = Deaf()
NO = Refused("opinion", "second opinion: no")
OVER = Refused("opinion-over-budget", "second opinion: over semantic.judge.max_per_minute")


@dataclass
class Bench:
    """Opinions, and who gives them."""

    opinion: HandOpinion
    seconds: float = 1.0
    max_per_minute: int = 100
    clock: HandClock = field(default_factory=HandClock)
    events: Heard = field(default_factory=Heard)

    def __post_init__(self) -> None:
        self.opinions = Opinions(
            self.opinion,
            seconds=self.seconds,
            max_per_minute=self.max_per_minute,
            clock=self.clock,
            events=self.events,
        )

    def ask(
        self,
        asked: str = "asked",
        stored: str = "stored",
        whom: Respondent | None = WHOM,
        partition: str = "partition",
    ) -> asyncio.Task[Refused | None]:
        """Ask about a pair."""
        phrasing = make_phrasing(asked, partition=partition)
        return asyncio.create_task(self.opinions.doubt(phrasing, stored, whom))


@pytest.mark.parametrize("yes", [True, False])
async def test_all_who_ask_at_the_same_time_share_one_opinion(yes: bool) -> None:  # noqa: FBT001
    """And who asks within the hour, about the pair in either order."""
    bench = Bench(HandOpinion(told=yes, held=True))
    asking = [bench.ask() for _ in range(100)]
    await settle()
    bench.opinion.say.set()
    told = None if yes else NO
    assert await asyncio.gather(*asking) == [told] * 100
    bench.clock.seconds += REMEMBERED_SECONDS - 1
    assert [await bench.ask(), await bench.ask("stored", "asked")] == [told, told]
    assert len(bench.opinion.asked) == 1
    bench.clock.seconds += 1
    assert await bench.ask() == told
    assert len(bench.opinion.asked) == 2


async def test_an_opinion_is_of_one_partition() -> None:
    """Another tenant's is another's, under way or remembered."""
    bench = Bench(HandOpinion(told=True))
    await asyncio.gather(bench.ask(), bench.ask(partition="other"))
    await bench.ask(partition="third")
    assert len(bench.opinion.asked) == 3


async def test_on_another_account_it_is_asked_anew() -> None:
    """One that is refused must not cost others their answer; what is known is known to both."""
    bench = Bench(HandOpinion(told=True, held=True))
    asking = [bench.ask(), bench.ask(whom=Deaf())]
    await settle()
    bench.opinion.say.set()
    assert await asyncio.gather(*asking) == [None, None]
    assert len(bench.opinion.asked) == 2
    assert await bench.ask(whom=Deaf()) is None
    assert await bench.ask(whom=None) is None
    assert len(bench.opinion.asked) == 2


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (None, "unsure"),
        (UpstreamBroken("gone", upstream="u"), "failed"),
        (RuntimeError(), "failed"),
    ],
)
async def test_what_is_no_opinion_is_not_remembered(told: Exception | None, why: str) -> None:
    """Shared it is, and a failure is told once for all who waited."""
    bench = Bench(HandOpinion(told=told))
    for _ in range(2):
        doubts = await asyncio.gather(*[bench.ask() for _ in range(5)])
        assert doubts == [Refused("opinion", f"second opinion: {why}")] * 5
    assert len(bench.opinion.asked) == 2
    assert len(bench.events.of(Degraded)) == (2 if why == "failed" else 0)


async def test_each_waits_at_most_its_own_time() -> None:
    """The last to give up stops the asking."""
    bench = Bench(HandOpinion(told=True, held=True), seconds=0.02)
    late = Refused("opinion", "second opinion: late")
    assert await asyncio.gather(*[bench.ask() for _ in range(3)]) == [late] * 3
    await settle()
    assert (len(bench.opinion.asked), bench.opinion.stopped) == (1, 1)
    bench.opinion.say.set()
    assert await bench.ask() is None


async def test_who_asked_first_may_leave() -> None:
    """The others have the opinion all the same."""
    bench = Bench(HandOpinion(told=True, held=True))
    first, second = bench.ask(), bench.ask()
    await settle()
    first.cancel()
    await settle()
    bench.opinion.say.set()
    assert await second is None
    assert (len(bench.opinion.asked), bench.opinion.stopped) == (1, 0)


async def test_so_many_pairs_a_minute() -> None:
    """Over that it is a doubt of its own; what is remembered, or shared, costs nothing."""
    bench = Bench(HandOpinion(told=True), max_per_minute=2)
    assert await asyncio.gather(*[bench.ask("a") for _ in range(5)]) == [None] * 5
    assert [await bench.ask(text) for text in "abc"] == [None, None, OVER]
    assert await bench.ask("c", whom=None) is None
    bench.clock.seconds += 60
    assert await bench.ask("d") is None
    assert [asked for asked, _ in bench.opinion.asked] == ["a", "b", "c", "d"]


async def test_the_same_words_need_no_opinion() -> None:
    bench = Bench(HandOpinion(told=False))
    assert await bench.ask("stored") is None
    assert bench.opinion.asked == []


async def test_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest."""
    monkeypatch.setattr(opinions, "REMEMBERED_PAIRS", 2)
    bench = Bench(HandOpinion(told=True))
    for text in "abcbca":
        await bench.ask(text)
    assert [asked for asked, _ in bench.opinion.asked] == ["a", "b", "c", "a"]
