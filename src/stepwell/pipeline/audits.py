"""Has hits on other words judged, behind the answers: those drawn, and those shadow mode withheld.

What a judge compares is the answer that was, or would have been, served and the one the model
server gives to the question as it was asked. Nobody waits for any of it, and nothing of it fails a
request.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry
from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import Degraded, HitNotJudged
from stepwell.core.judgement import Verdict
from stepwell.core.judging import AnswerJudge, Respondent
from stepwell.core.names import CacheKey
from stepwell.core.outcome import Hit
from stepwell.core.ports import EventSink
from stepwell.pipeline.feedback import By, Feedback
from stepwell.pipeline.flight import Flight, Landed, Reader
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.hit_id import HitId, name_hit
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.respondent import Respondents
from stepwell.policy.allowance import Allowance
from stepwell.policy.gates import refusal_in_advance
from stepwell.wire.said import said

MAX_AUDITS = 64
"""How many hits may be under judgement at a time."""


@dataclass(frozen=True, slots=True)
class AuditRules:
    """Which hits are judged, and how much that may cost."""

    sample_share: float = 0.0
    """Of the hits that are served, from 0 to 1."""
    max_per_minute: int = 60
    """Hits, drawn and withheld together."""
    timeout_seconds: float = 30.0
    """How long a judge may take over one hit."""
    draw: Callable[[], float] = field(default_factory=lambda: random.Random().random)  # noqa: S311  (a sample, not a secret)
    """Returns numbers from 0 to 1, evenly: a hit is drawn if its number is below the share."""


@dataclass(frozen=True, slots=True)
class _Audit:
    """One hit that is to be judged."""

    question: Question
    key: CacheKey
    """Of the question."""
    hit: Hit
    hit_id: HitId
    by: By
    respondent: Respondent


class Audits:
    """Has hits judged, in the background.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self,
        flights: Flights,
        judge: AnswerJudge,
        respondents: Respondents,
        feedback: Feedback,
        *,
        rules: AuditRules,
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Put the parts together.

        Args:
            flights: Ask the model server once more.
            judge: Compares the two answers.
            respondents: Which model a judge may ask.
            feedback: Takes what the judge says.
            rules: Which hits, and how many.
            clock: The time.
            events: Hears of hits that were not judged.
        """
        self._flights = flights
        self._judge = judge
        self._respondents = respondents
        self._feedback = feedback
        self._rules = rules
        self._clock = clock
        self._events = events
        self._running: dict[CacheKey, asyncio.Task[None]] = {}
        self._allowance = Allowance(rules.max_per_minute)

    def __len__(self) -> int:
        """Return how many hits are under judgement."""
        return len(self._running)

    def served(self, ask: Ask, hit: Hit) -> None:
        """Draw a hit that is being served, or do not; ask the model server anew if it is drawn.

        Exact hits are not drawn. Neither is a question that its caller does not want put to the
        model server, or whose answer is not to be kept.
        """
        if not self._rules.sample_share or hit.similarity is None:
            return
        if not _may_be_asked_again(ask.question):
            return
        if self._rules.draw() >= self._rules.sample_share:
            return
        audit = self._admit(ask, hit, By.SAMPLE)
        if audit is None:
            return
        flight = self._flights.to_join(ask.question)
        if flight is None:
            flight = self._flights.launch(ask, may_fill=True, share=True)
        reader = flight.join()
        task = self._start(audit, self._after_asking(audit, reader))
        # Not at the task's end: one that is cancelled before it began never comes to it.
        task.add_done_callback(lambda _: reader.leave())

    def withheld(self, ask: Ask, hit: Hit, flight: Flight) -> None:
        """Judge a hit that is not served, when the answer that is has come.

        Args:
            ask: The request.
            hit: What would have been served.
            flight: Brings the answer that is served instead.
        """
        audit = self._admit(ask, hit, By.SHADOW)
        if audit is not None:
            self._start(audit, self._after_flight(audit, flight))

    async def aclose(self) -> None:
        """Stop all audits. They were nobody's request."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _admit(self, ask: Ask, hit: Hit, by: By) -> _Audit | None:
        """Return the audit of a hit, unless one of the same question runs, or there is no room."""
        question = ask.question
        hit_id = name_hit(question, hit)
        if hit_id is None or question.key is None or question.key in self._running:
            return None
        full = len(self._running) >= MAX_AUDITS
        if full or not self._allowance.take(self._clock.monotonic()):
            self._drop("crowded" if full else "over-budget", by, question)
            return None
        return _Audit(question, question.key, hit, hit_id, by, self._respondents.of(ask))

    def _start(self, audit: _Audit, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._running[audit.key] = task
        task.add_done_callback(lambda _: self._running.pop(audit.key, None))
        return task

    async def _after_asking(self, audit: _Audit, reader: Reader) -> None:
        try:
            landed = await reader.landed()
        except (UpstreamError, RequestError):
            landed = Landed(None)  # The upstream has counted it.
        await self._audit(audit, landed.entry)

    async def _after_flight(self, audit: _Audit, flight: Flight) -> None:
        end = await flight.over()
        await self._audit(audit, end.entry if isinstance(end, Landed) else None)

    async def _audit(self, audit: _Audit, entry: Entry | None) -> None:
        """Compare, and let it be known."""
        if entry is None:
            self._drop("no-answer", audit.by, audit.question)
            return
        try:
            same = await self._compare(audit, entry)
            if same is None:
                self._drop("unsure", audit.by, audit.question)
                return
            verdict = Verdict.RIGHT if same else Verdict.WRONG
            name = audit.question.request_class.name
            await self._feedback.note(audit.hit_id, verdict, audit.by, name)
        except Exception as error:  # noqa: BLE001  (whatever a judge does, no request is to hear it)
            self._events.emit(Degraded("semantic.judge", str(error) or type(error).__name__))
            self._drop("failed", audit.by, audit.question)

    async def _compare(self, audit: _Audit, entry: Entry) -> bool | None:
        question = audit.question
        would_be = said(question.endpoint, audit.hit.entry.answer)
        made = said(question.endpoint, entry.answer)
        if would_be is None or made is None or question.phrasing is None:
            return None
        async with asyncio.timeout(self._rules.timeout_seconds):
            return await self._judge.same(question.phrasing.text, would_be, made, audit.respondent)

    def _drop(self, why: str, by: By, question: Question) -> None:
        self._events.emit(HitNotJudged(why, by, question.request_class.name))


def _may_be_asked_again(question: Question) -> bool:
    directives = question.directives
    stored = refusal_in_advance(directives, question.request_class) is None
    return stored and not directives.only_if_cached
