"""Single-flight: identical concurrent misses cost one upstream call."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from stepwell.core.clock import Clock
from stepwell.core.entry import Answer, Entry, SourceValue, Usage
from stepwell.core.errors import RequestError, UpstreamBroken, UpstreamError
from stepwell.core.events import FillRefused, LeaderLost, Stored, UpstreamAnswered
from stepwell.core.names import EVERYONE, CacheKey, Form
from stepwell.core.ports import EventSink, Paraphrases, Reply
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.circle import Circle, Followed, Lead, Leader
from stepwell.pipeline.fill import Made, fill
from stepwell.pipeline.flight import Crashed, End, Flight, Head, Landed
from stepwell.pipeline.leg import BorrowedLeg, Leg
from stepwell.pipeline.question import Ask, Question
from stepwell.policy.freshness import Fresh, judge
from stepwell.policy.gates import Gate, refusal_in_advance
from stepwell.policy.sources import stamp
from stepwell.wire.render import render
from stepwell.wire.summary import summarise
from stepwell.wire.told import Diverged

_REFUSES_OPTIONS = frozenset({400, 422})
"""Statuses of a server that does not know ``stream_options``."""

_BOTH_FAILED = "Two other calls failed."

_FINAL_STATUSES = range(200, 600)
"""Others are no final reply in HTTP (RFC 9110, 15)."""

_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1

_CONTENT_TYPES = {
    Form.JSON: (("content-type", "application/json"),),
    Form.SSE: (("content-type", "text/event-stream; charset=utf-8"),),
}


@dataclass(frozen=True, slots=True)
class _Journey:
    """What a flight is flown for."""

    flight: Flight
    ask: Ask
    key: CacheKey
    may_fill: bool
    deadline: float
    """Until when it may wait for others."""


@dataclass(frozen=True, slots=True)
class _Took:
    """How long a call took."""

    seconds: float
    first_byte_seconds: float


class Flights:
    """The flights under way in this worker.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self,
        exact: ExactLayer,
        *,
        clock: Clock,
        events: EventSink,
        circles: Sequence[Circle] = (),
        paraphrases: Paraphrases | None = None,
        max_wait_seconds: float = 120.0,
    ) -> None:
        """Start with no flight.

        Args:
            exact: Where answers are kept.
            clock: The time.
            events: Hears of answers, and why they were not stored.
            circles: Others to share with, nearest first; without them, this worker shares with
                itself only.
            paraphrases: The semantic layer, if there is one; learns what is kept.
            max_wait_seconds: How long to wait for another that does not fly.
        """
        self._exact = exact
        self._clock = clock
        self._events = events
        self._circles = tuple(circles)
        self._paraphrases = paraphrases
        self._max_wait_seconds = max_wait_seconds
        self._open: dict[CacheKey, Flight] = {}
        self._plain: set[str] = set()
        """Upstreams that refuse ``stream_options``; asked as the caller asks from then on."""

    def __len__(self) -> int:
        return len(self._open)

    def under_way(self, key: CacheKey) -> Flight | None:
        """Return the flight for ``key``, whether it can still be joined or not."""
        return self._open.get(key)

    def to_join(self, question: Question) -> Flight | None:
        """Return the flight whose answer is as good as a new one for ``question``, if any is.

        One that was launched before an invalidation, or under other values of a source, is not.
        """
        flight = None if question.key is None else self.under_way(question.key)
        if flight is None or flight.stopped or not flight.kept_whole:
            return None
        known = self._exact.last_invalidation(), self._stamp(question)
        return flight if flight.made.suits(*known) else None

    def launch(self, ask: Ask, *, may_fill: bool, share: bool) -> Flight:
        """Start a call. With ``share``, others find it, and no longer what flew for its key."""
        question, exact = ask.question, self._exact
        made = Made(exact.position(), self._stamp(question), exact.last_invalidation())
        kept_bytes = question.request_class.max_answer_bytes if may_fill else 0
        flight = Flight(made, max_kept_bytes=kept_bytes)
        key = question.key if share else None
        if key is not None:
            self._open[key] = flight
        flight.start(lambda flight: self._write(flight, ask, key, may_fill=may_fill))
        return flight

    async def _write(
        self, flight: Flight, ask: Ask, key: CacheKey | None, *, may_fill: bool
    ) -> None:
        """Write a flight: by a call of our own, or by reading another's."""
        try:
            if key is None:
                await self._fly(flight, ask, key, may_fill=may_fill)
            else:
                deadline = self._clock.monotonic() + self._max_wait_seconds
                journey = _Journey(flight, ask, key, may_fill, deadline)
                await self._fly_in_turn(journey, self._circles)
        except Diverged as error:
            # What was handed on cannot be taken back, and not be gone on with either.
            message = f"The call was lost, and cannot be gone on with: {error}."
            flight.finish(Crashed(UpstreamBroken(message, upstream=ask.upstream.name)))
        finally:
            self._close(key, flight)

    async def _fly_in_turn(
        self, journey: _Journey, circles: Sequence[Circle], *, may_be_made: bool = False
    ) -> None:
        """Fly if nobody in the circles does; else follow who does."""
        if not circles:
            await (self._fly_unless_made if may_be_made else self._fly_journey)(journey)
            return
        lead = await self._follow_until_ours(journey, circles[0])
        if journey.flight.end is not None:
            return
        if lead is None:
            await self._fly_journey(journey)
            return
        try:
            await self._fly_in_turn(
                journey, circles[1:], may_be_made=may_be_made or lead.may_be_made
            )
        finally:
            lead.release()

    async def _follow_until_ours(self, journey: _Journey, circle: Circle) -> Lead | None:
        """Follow whoever leads, to the flight's end, or until the lead is ours.

        After one that failed, or could not be asked, another is followed once more; after one that
        was lost, as often as there is time.

        Returns:
            ``None``: the flight has ended; or it must be flown in any case, because the leader
            cannot be asked, its answer would not do, or does not begin in time.
        """
        pause_seconds = _FIRST_PAUSE_SECONDS
        before: set[Followed] = set()
        while (left_seconds := journey.deadline - self._clock.monotonic()) > 0:
            turn = await circle.claim(journey.key)
            if isinstance(turn, Lead):
                return turn
            followed = await self._follow(turn, journey, left_seconds)
            if not self._claims_again(journey, followed, before):
                return None
            before.add(followed)
            # It is about to begin, or storing what it got: a matter of milliseconds.
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
        return None

    def _claims_again(self, journey: _Journey, followed: Followed, before: set[Followed]) -> bool:
        """Return whether there is a point in it; end the flight if two leaders failed."""
        match followed:
            case Followed.TO_THE_END | Followed.OUTDATED:
                return False
            case Followed.UNREACHED:
                return followed not in before
            case Followed.FAILED:
                if followed in before:
                    error = UpstreamBroken(_BOTH_FAILED, upstream=journey.ask.upstream.name)
                    journey.flight.finish(Crashed(error))
                return followed not in before
            case Followed.LOST:
                self._events.emit(LeaderLost(midway=journey.flight.head is not None))
                return True
            case Followed.NOT_THERE:
                return True

    async def _follow(self, leader: Leader, journey: _Journey, patience_seconds: float) -> Followed:
        flight = journey.flight
        flight.borrowed = True
        leg = BorrowedLeg(flight, journey.ask.question.endpoint)
        return await leader.follow(leg, patience_seconds=patience_seconds)

    async def _fly_unless_made(self, journey: _Journey) -> None:
        """Fly, unless another has stored a good answer since the layers were asked."""
        flight, question = journey.flight, journey.ask.question
        found = await self._exact.lookup(journey.key)
        if found is None or not self._is_good(found[0], question):
            await self._fly_journey(journey)
            return
        entry = found[0]
        flight.borrowed = True
        leg = Leg(flight, question.endpoint)
        leg.begin(Head(HTTPStatus.OK, _CONTENT_TYPES[entry.answer.form], entry.answer.form))
        await leg.extend(entry.answer.body)
        await leg.end()
        flight.finish(Landed(entry))

    def _is_good(self, entry: Entry, question: Question) -> bool:
        verdict = judge(
            entry,
            self._clock.now(),
            question.directives,
            question.request_class,
            partial(self._exact.source_to_judge_by, question.namespace or EVERYONE),
            question.sources,
        )
        body = render(question.endpoint, entry.answer, question.shape)
        return isinstance(verdict, Fresh) and body is not None

    async def _fly_journey(self, journey: _Journey) -> None:
        flight, key = journey.flight, journey.key
        await self._fly(flight, journey.ask, key, may_fill=journey.may_fill)

    async def _fly(self, flight: Flight, ask: Ask, key: CacheKey | None, *, may_fill: bool) -> None:
        """Call the model server, then store what it said."""
        flight.borrowed = False
        end: End
        try:
            end = await self._call(flight, ask, may_fill=may_fill)
        except (UpstreamError, RequestError) as error:
            end = Crashed(error)
        entry = end.entry if isinstance(end, Landed) else None
        if entry is None or self._exact.holds(entry.key):
            self._close(key, flight)
        flight.finish(end)
        if entry is not None:
            # Where memory has no room for it, the flight is all there is until it is stored.
            await self._exact.share(entry)

    def _close(self, key: CacheKey | None, flight: Flight) -> None:
        if key is not None and self._open.get(key) is flight:
            del self._open[key]

    async def _call(self, flight: Flight, ask: Ask, *, may_fill: bool) -> Landed:
        """Ask the model server; return its answer as an entry, or why it is not stored."""
        started = self._clock.monotonic()
        reply = await self._send(ask, for_keeps=may_fill)
        if reply.status not in _FINAL_STATUSES:
            await reply.aclose()
            name = ask.upstream.name
            raise UpstreamBroken(f"{name} answered with status {reply.status}", upstream=name)
        first_byte_seconds = self._clock.monotonic() - started
        head = Head(reply.status, reply.headers, _form(reply))
        try:
            leg = Leg(flight, ask.question.endpoint)
            leg.begin(head)
            async for chunk in reply.chunks():
                await leg.extend(chunk)
            await leg.end()
        finally:
            await reply.aclose()
        took = _Took(self._clock.monotonic() - started, first_byte_seconds)
        if may_fill and flight.kept_whole:
            return self._fill(flight, head, ask, took)
        self._count_answer(ask, head, took, Usage())
        question = ask.question
        in_advance = refusal_in_advance(question.directives, question.request_class)
        return self._refused(Gate.TOO_LARGE if may_fill else in_advance, question)

    async def _send(self, ask: Ask, *, for_keeps: bool) -> Reply:
        """Send the call; a server that refuses ``stream_options`` is asked without, from now on."""
        name = ask.upstream.name
        if not for_keeps or ask.call is ask.plain_call or name in self._plain:
            return await ask.upstream.send(ask.plain_call)
        reply = await ask.upstream.send(ask.call)
        if reply.status not in _REFUSES_OPTIONS:
            return reply
        await reply.aclose()
        plain = await ask.upstream.send(ask.plain_call)
        if plain.status not in _REFUSES_OPTIONS:  # else the request itself is at fault
            self._plain.add(name)
        return plain

    def _fill(self, flight: Flight, head: Head, ask: Ask, took: _Took) -> Landed:
        """Pass the answer through the write gates and keep it in memory."""
        question = ask.question
        answer = Answer(head.form, flight.body())
        summary = summarise(question.endpoint, answer)
        if summary.complete:
            self._count_answer(ask, head, took, summary.usage or Usage())
        now = self._clock.now()
        filled = fill(question, head.status, answer, summary, flight.made, took.seconds, now)
        if isinstance(filled, Gate):
            return self._refused(filled, question, summary.usage)
        if not self._exact.keep(filled):
            return self._refused("invalidated", question, summary.usage)
        if self._paraphrases is not None:
            self._paraphrases.learn(filled)
        self._events.emit(Stored(question.request_class.name, filled.size_bytes))
        return Landed(filled)

    def _count_answer(self, ask: Ask, head: Head, took: _Took, usage: Usage) -> None:
        if head.status == HTTPStatus.OK:
            name, model = ask.upstream.name, ask.question.model
            self._events.emit(
                UpstreamAnswered(name, model, took.seconds, took.first_byte_seconds, usage)
            )

    def _refused(self, gate: str | None, question: Question, usage: Usage | None = None) -> Landed:
        """Count an answer that was not stored. No gate is asked where no layer was."""
        if gate is None:
            return Landed(None, usage=usage)
        self._events.emit(FillRefused(gate, question.request_class.name))
        return Landed(None, gate, usage)

    def _stamp(self, question: Question) -> tuple[SourceValue, ...]:
        if question.namespace is None:
            return ()
        current_source = partial(self._exact.source_value, question.namespace)
        return stamp(question.request_class, question.sources, current_source)


def _form(reply: Reply) -> Form:
    content_type = next((value for name, value in reply.headers if name == "content-type"), "")
    media_type = content_type.partition(";")[0].strip().lower()
    return Form.SSE if media_type == "text/event-stream" else Form.JSON
