"""Hits that are judged behind the answers: what is asked, what is said, what it must not do."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from support.walk import (
    STREAM,
    HandUpstream,
    Heard,
    completion,
    key_of,
    make_ask,
    make_exact,
    make_flights,
    make_question,
    settle,
    stream_of,
)

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry, Phrasing
from stepwell.core.errors import StoreUnavailable, UpstreamBroken, UpstreamUnreachable
from stepwell.core.events import Degraded, HitJudged, HitNotJudged, HitWithheld, Result
from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.judging import Respondent, Said
from stepwell.core.likeness import Match, NoMatch, Terms
from stepwell.core.names import CacheKey, Form, PairId
from stepwell.exact.layer import ExactLayer
from stepwell.keys.pair import pair_of
from stepwell.pipeline.audits import MAX_AUDITS, AuditRules, Audits
from stepwell.pipeline.behind import Behind
from stepwell.pipeline.circle import Lead
from stepwell.pipeline.feedback import By, Feedback
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.hit_id import HitId
from stepwell.pipeline.lookups import Lookups
from stepwell.pipeline.question import Question
from stepwell.pipeline.renderings import Renderings
from stepwell.pipeline.respondent import Respondents
from stepwell.pipeline.runner import Runner
from stepwell.pipeline.served import Body, Served
from stepwell.policy.classes import GENERAL
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key, make_phrasing
from stepwell.wire.controls import Directives

STORED = make_phrasing("how do I return shoes")
ASKED = make_phrasing("what is the way to return shoes")
PAIR = pair_of(STORED.partition, STORED.text, ASKED.text)
SHADOW = replace(GENERAL, name="careful", shadow=True)
UNREACHABLE = UpstreamUnreachable("nobody there", upstream="upstream")


@dataclass
class HandJudge:
    """Says what the test says; waits while it is held."""

    verdict: bool | Exception | None = True
    heard: list[tuple[str, Said, Said]] = field(default_factory=list)
    held: asyncio.Event | None = None

    async def same(
        self, question: str, one: Said, other: Said, respondent: Respondent
    ) -> bool | None:
        self.heard.append((question, one, other))
        if self.held is not None:
            await self.held.wait()
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


@dataclass
class HandJudgements:
    """Keeps judgements, or fails; knows denied pairs."""

    kept: list[Judgement] = field(default_factory=list)
    failing: bool = False
    denied: set[PairId] = field(default_factory=set)

    async def judge(self, judgement: Judgement) -> None:
        if self.failing:
            raise StoreUnavailable("the disk is gone")
        self.kept.append(judgement)

    async def judgements(self) -> list[Judgement]:
        return self.kept

    def denies(self, pair: PairId) -> bool:
        return pair in self.denied


class OneMatch:
    """Finds the stored question for anything."""

    async def lookup(self, phrasing: Phrasing, terms: Terms) -> Match | NoMatch:
        return Match(make_key("stored"), STORED.text, 0.953)

    def learn(self, entry: Entry) -> None:
        """Nothing is learnt."""

    def forget(self, key: CacheKey) -> None:
        """Nothing is forgotten."""


@dataclass
class HandCircle:
    """Other workers, one of which has just stored the answer."""

    exact: ExactLayer
    made: Entry

    async def claim(self, key: CacheKey) -> Lead:
        assert self.exact.keep(self.made)
        return Lead(lambda: None)


@dataclass
class Walk:
    """A runner with audits, and everything around it."""

    clock: HandClock
    events: Heard
    exact: ExactLayer
    flights: Flights
    judge: HandJudge
    judgements: HandJudgements
    audits: Audits
    runner: Runner
    upstream: HandUpstream

    async def ask(self, question: Question) -> Served:
        return await self.runner.answer(make_ask(question, self.upstream))

    def told(self) -> list[object]:
        """Return what was said of judgements."""
        kinds = HitJudged, HitNotJudged
        return [event for event in self.events.events if isinstance(event, kinds)]


def make_walk(
    *,
    share: float = 0.0,
    draw: Callable[[], float] = lambda: 0.0,
    max_per_minute: int = 1_000,
    beside: Callable[[ExactLayer], tuple[HandCircle, ...]] = lambda _: (),
) -> Walk:
    clock, events = HandClock(), Heard()
    exact = make_exact(clock, events)
    flights = make_flights(
        exact,
        clock=clock,
        events=events,
        circles=beside(exact),
    )
    judge, judgements = HandJudge(), HandJudgements()
    feedback = Feedback(exact, judgements, judgements, clock=clock, events=events)
    rules = AuditRules(share, max_per_minute, 0.05, draw)
    audits = Audits(
        flights,
        judge,
        Respondents(clock=clock, events=events),
        feedback,
        rules=rules,
        clock=clock,
        events=events,
    )
    renderings = Renderings(max_bytes=100_000)
    runner = Runner(
        exact,
        Lookups(exact, renderings, clock=clock, paraphrases=OneMatch()),
        flights,
        renderings,
        clock=clock,
        events=events,
        max_wait_seconds=60.0,
        behind=Behind(audits),
    )
    assert exact.keep(stored_entry(clock))
    return Walk(clock, events, exact, flights, judge, judgements, audits, runner, HandUpstream())


def stored_entry(clock: Clock) -> Entry:
    return make_entry("stored", body=completion("Old."), created_at=clock.now(), phrasing=STORED)


def asked(name: str = "asked", **changes: object) -> Question:
    return make_question(name, phrasing=ASKED, **changes)  # type: ignore[arg-type]


def shadowed(name: str = "asked", **changes: object) -> Question:
    return asked(name, request_class=SHADOW, **changes)


async def test_a_hit_that_is_drawn() -> None:
    """It is served at once; the model server is asked behind it, and both answers are compared."""
    walk = make_walk(share=1.0)
    served = await walk.ask(asked())
    assert (served.result, served.body) == (Result.HIT, completion("Old."))
    assert walk.judge.heard == []
    walk.upstream.reply(completion("New."))
    await settle()
    assert walk.judge.heard == [(ASKED.text, Said("Old."), Said("New."))]
    assert walk.told() == [HitJudged("right", "sample", "general")]
    kept = Judgement(PAIR, make_key("stored"), 0.953, Verdict.RIGHT, 1_000.0)
    assert walk.judgements.kept == [kept]
    assert len(walk.audits) == 0
    # The new answer is the question's own.
    again = await walk.ask(asked())
    assert (again.result, again.body) == (Result.HIT, completion("New."))
    assert len(walk.upstream.calls) == 1


@pytest.mark.parametrize(
    ("share", "drawn", "calls"), [(0.0, 0.0, 0), (0.3, 0.3, 0), (0.3, 0.29, 1), (1.0, 0.999, 1)]
)
async def test_the_share_that_is_drawn(share: float, drawn: float, calls: int) -> None:
    """As many as the share says; 0 is none."""
    walk = make_walk(share=share, draw=lambda: drawn)
    await walk.ask(asked())
    await settle()
    assert len(walk.upstream.calls) == calls
    await walk.runner.aclose()


@pytest.mark.parametrize(
    "directives",
    [
        Directives(no_store=True),
        Directives(only_if_cached=True),
        Directives(ttl_seconds=0),
    ],
)
async def test_a_question_that_is_not_to_be_asked_is_not_drawn(directives: Directives) -> None:
    """The caller does not want it sent, or its answer kept."""
    walk = make_walk(share=1.0)
    served = await walk.ask(asked(directives=directives))
    assert served.result is Result.HIT
    await settle()
    assert walk.upstream.calls == []


async def test_exact_hits_and_misses_are_not_drawn() -> None:
    """They are their own questions' answers."""
    walk = make_walk(share=1.0)
    served = await walk.ask(make_question("stored", phrasing=STORED))
    assert served.result is Result.HIT
    walk.upstream.reply(completion())
    await walk.ask(make_question("something else"))
    await settle()
    assert walk.told() == []
    assert len(walk.upstream.calls) == 1


async def test_shadow_mode() -> None:
    """The hit is counted and judged, the answer is the model server's own, and is stored."""
    walk = make_walk()
    walk.upstream.reply(completion("New."))
    served = await walk.ask(shadowed())
    await settle()
    assert (served.result, served.body) == (Result.MISS, completion("New."))
    assert (served.hit_id, served.saved_seconds) == ("", 0.0)
    assert served.trail == (
        "exact: miss",
        "semantic: would hit, 0.953 alike (shadow)",
        "upstream: 200",
    )
    assert walk.events.of(HitWithheld) == [HitWithheld("careful")]
    assert walk.judge.heard == [(ASKED.text, Said("Old."), Said("New."))]
    assert walk.told() == [HitJudged("right", "shadow", "careful")]
    assert len(walk.upstream.calls) == 1
    again = await walk.ask(shadowed())
    assert (again.result, again.body) == (Result.HIT, completion("New."))


async def test_shadow_mode_compares_a_stream_too() -> None:
    """The reader has it all before anybody judges."""
    walk = make_walk()
    walk.upstream.reply(b"".join(stream_of("New", ".")), form=Form.SSE)
    served = await walk.ask(shadowed(shape=STREAM))
    assert isinstance(served.body, Body)
    assert b"".join([chunk async for chunk in served.body.chunks]).endswith(b"[DONE]\n\n")
    await settle()
    assert walk.judge.heard == [(ASKED.text, Said("Old."), Said("New."))]


async def test_shadow_mode_keeps_no_call_going() -> None:
    """When the client leaves, the model server is stopped, as without it."""
    walk = make_walk()
    reply = walk.upstream.reply(form=Form.SSE)
    reply.say(*stream_of("New", ".")[:2])
    served = await walk.ask(shadowed(shape=STREAM))
    assert isinstance(served.body, Body)
    await settle()
    served.body.close()
    await settle()
    assert reply.closed
    assert walk.told() == [HitNotJudged("no-answer", "shadow", "careful")]
    assert len(walk.audits) == 0


async def test_requests_that_share_a_call_are_judged_once() -> None:
    """They ask the same, and would have been given the same."""
    walk = make_walk()
    together = [asyncio.ensure_future(walk.ask(shadowed())) for _ in range(5)]
    await settle()
    walk.upstream.reply(completion("New."))
    served = await asyncio.gather(*together)
    await settle()
    assert {one.body for one in served} == {completion("New.")}
    assert len(walk.upstream.calls) == 1
    assert walk.told() == [HitJudged("right", "shadow", "careful")]
    assert len(walk.events.of(HitWithheld)) == 5


@pytest.mark.parametrize("question", [asked(), shadowed()], ids=["sample", "shadow"])
@pytest.mark.parametrize(
    ("said", "event"),
    [
        (False, "wrong"),
        (None, "unsure"),
        (UpstreamBroken("no", upstream="u"), "failed"),
        (RuntimeError(), "failed"),
    ],
)
async def test_what_a_judge_may_say(
    question: Question,
    said: bool | Exception | None,  # noqa: FBT001
    event: str,
) -> None:
    """Only a clear no denies the pair; whatever else happens, nobody hears of it but the counts."""
    walk = make_walk(share=1.0)
    walk.judge.verdict = said
    walk.upstream.reply(completion("New."))
    served = await walk.ask(question)
    await settle()
    assert served.status == 200
    by, name = ("shadow", "careful") if question.request_class.shadow else ("sample", "general")
    wrong = event == "wrong"
    expected = HitJudged("wrong", by, name) if wrong else HitNotJudged(event, by, name)
    assert walk.told() == [expected]
    assert [kept.verdict for kept in walk.judgements.kept] == ([Verdict.WRONG] if wrong else [])
    assert len(walk.events.of(Degraded)) == (event == "failed")
    # The entry is there still, for the question it was made for.
    assert (await walk.ask(make_question("stored"))).result is Result.HIT


async def test_a_judge_that_hangs() -> None:
    """Is given up after its time."""
    walk = make_walk(share=1.0)
    walk.judge.held = asyncio.Event()
    walk.upstream.reply(completion("New."))
    await walk.ask(asked())
    async with asyncio.timeout(5):
        while not walk.told():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.01)
    await settle()
    assert walk.told() == [HitNotJudged("failed", "sample", "general")]
    assert len(walk.audits) == 0


async def test_a_model_server_that_fails_behind_a_hit() -> None:
    """Unreachable, an error status, an answer that is none: the hit was served all the same."""
    walk = make_walk(share=1.0)
    walk.upstream.fail(UNREACHABLE)
    walk.upstream.reply(b'{"error":{}}', status=500)
    walk.upstream.reply(completion("New.", finish_reason="length"))
    for _ in range(3):
        assert (await walk.ask(asked())).result is Result.HIT
        await settle()
    assert walk.told() == [HitNotJudged("no-answer", "sample", "general")] * 3
    assert walk.judge.heard == []


async def test_answers_that_are_no_text_are_not_judged() -> None:
    """Nobody can tell."""
    walk = make_walk(share=1.0)
    body = completion("New.").replace(b'"content": "New."', b'"audio": {"data": "AAAA"}')
    walk.upstream.reply(body)
    await walk.ask(asked())
    await settle()
    assert walk.told() == [HitNotJudged("unsure", "sample", "general")]
    assert walk.judge.heard == []


async def test_a_store_that_fails() -> None:
    """What cannot be kept is not counted as judged."""
    walk = make_walk(share=1.0)
    walk.judgements.failing = True
    walk.upstream.reply(completion("New."))
    await walk.ask(asked())
    await settle()
    assert walk.told() == [HitNotJudged("failed", "sample", "general")]


async def test_the_budget_of_a_minute() -> None:
    """What is beyond costs no call; the next minute has its own."""
    walk = make_walk(share=1.0, max_per_minute=2)
    for name in ("a", "b", "c"):
        walk.upstream.reply(completion("New."))
        assert (await walk.ask(asked(name))).result is Result.HIT
        await settle()
    assert [type(event) for event in walk.told()] == [HitJudged, HitJudged, HitNotJudged]
    assert walk.told()[-1] == HitNotJudged("over-budget", "sample", "general")
    assert len(walk.upstream.calls) == 2
    walk.clock.seconds += 60
    await walk.ask(asked("d"))
    await settle()
    assert len(walk.upstream.calls) == 3


async def test_so_many_at_a_time() -> None:
    """Others are not judged; nobody waits."""
    walk = make_walk(share=1.0)
    for number in range(MAX_AUDITS + 3):
        assert (await walk.ask(asked(f"q{number}"))).result is Result.HIT
    await settle()
    assert len(walk.audits) == len(walk.upstream.calls) == MAX_AUDITS
    assert walk.told() == [HitNotJudged("crowded", "sample", "general")] * 3
    await walk.runner.aclose()


@pytest.mark.parametrize("ticks", [0, 50])
async def test_closing_while_the_model_server_is_asked(ticks: int) -> None:
    """The call is stopped, also one that has hardly begun."""
    walk = make_walk(share=1.0)
    await walk.ask(asked())
    for _ in range(ticks):
        await asyncio.sleep(0)
    await walk.runner.aclose()
    await settle()
    assert len(walk.audits) == 0
    assert len(walk.flights) == 0
    assert walk.upstream.stopped == len(walk.upstream.calls)
    assert walk.judgements.kept == []


@pytest.mark.parametrize("question", [asked(), shadowed()], ids=["sample", "shadow"])
async def test_closing_while_a_judge_thinks(question: Question) -> None:
    """It is not waited for."""
    walk = make_walk(share=1.0)
    walk.judge.held = asyncio.Event()
    walk.upstream.reply(completion("New."))
    await walk.ask(question)
    await settle()
    assert len(walk.judge.heard) == 1
    await walk.runner.aclose()
    assert len(walk.audits) == 0
    assert walk.judgements.kept == []


async def test_a_call_under_way_is_shared() -> None:
    """Somebody asks the same anyway: one call for both."""
    walk = make_walk(share=1.0)
    direct = asyncio.ensure_future(walk.ask(asked(directives=Directives(max_age_seconds=0.5))))
    walk.clock.seconds += 1
    await settle()
    assert len(walk.upstream.calls) == 1
    served = await walk.ask(asked())
    assert served.result is Result.HIT
    walk.upstream.reply(completion("New."))
    assert (await direct).body == completion("New.")
    await settle()
    assert walk.told() == [HitJudged("right", "sample", "general")]
    assert len(walk.upstream.calls) == 1


async def test_a_question_is_judged_once_at_a_time() -> None:
    """Hits on it that come meanwhile would be compared with the same new answer."""
    walk = make_walk(share=1.0)
    for _ in range(3):
        assert (await walk.ask(asked())).result is Result.HIT
    walk.upstream.reply(completion("New."))
    await settle()
    assert walk.told() == [HitJudged("right", "sample", "general")]


async def test_an_answer_another_worker_made_is_judged_there() -> None:
    """It withheld the same hit."""
    made = make_entry("asked", body=completion("New."), created_at=1_000.0, phrasing=ASKED)
    walk = make_walk(beside=lambda exact: (HandCircle(exact, made),))
    served = await walk.ask(shadowed())
    await settle()
    assert (served.result, served.body) == (Result.COLLAPSED, completion("New."))
    assert walk.upstream.calls == []
    assert walk.events.of(HitWithheld) == [HitWithheld("careful")]
    assert walk.told() == []


async def test_no_judge_takes_a_persons_denial_back() -> None:
    """A person spoke while the judge thought: it is counted, and changes nothing."""
    walk = make_walk(share=1.0)
    walk.judgements.denied.add(PAIR)
    walk.upstream.reply(completion("New."))
    await walk.ask(asked())
    await settle()
    assert walk.told() == [HitJudged("right", "sample", "general")]
    assert walk.judgements.kept == []


async def test_people_are_counted_under_the_entrys_class() -> None:
    """Or under none, where it has gone."""
    walk = make_walk()
    feedback = Feedback(
        walk.exact, walk.judgements, walk.judgements, clock=walk.clock, events=walk.events
    )
    hit = HitId(make_key("stored"), PAIR, 0.9)
    await feedback.give(hit, Verdict.WRONG, delete=True)
    await feedback.give(hit, Verdict.WRONG)
    assert walk.told() == [
        HitJudged("wrong", By.PERSON, "general"),
        HitJudged("wrong", By.PERSON, "none"),
    ]
    assert walk.exact.peek(key_of(make_question("stored"))) is None
