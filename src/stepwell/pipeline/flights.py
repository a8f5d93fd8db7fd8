"""Single-flight: identical concurrent misses cost one upstream call."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry, SourceValue
from stepwell.core.errors import CallForked, RequestError, UpstreamBroken, UpstreamError
from stepwell.core.events import LeaderLost
from stepwell.core.names import EVERYONE, CacheKey, Form
from stepwell.core.ports import EventSink
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.calls import Calls
from stepwell.pipeline.circle import Circle, Followed, Lead, Leader
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import Crashed, End, Flight, Head, Landed
from stepwell.pipeline.leg import BorrowedLeg, Leg
from stepwell.pipeline.question import Ask, Question
from stepwell.policy.freshness import Fresh, judge
from stepwell.policy.sources import stamp
from stepwell.wire.render import render
from stepwell.wire.told import Diverged

_BOTH_FAILED = "Two other calls failed."

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


class Flights:
    """The flights under way in this worker.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(
        self,
        exact: ExactLayer,
        calls: Calls,
        *,
        clock: Clock,
        events: EventSink,
        circles: Sequence[Circle] = (),
        max_wait_seconds: float = 120.0,
    ) -> None:
        """Start with no flight.

        Args:
            exact: Where answers are kept.
            calls: Makes a call of our own.
            clock: The time.
            events: Hears of leaders that were lost.
            circles: Others to share with, nearest first; without them, this worker shares with
                itself only.
            max_wait_seconds: How long to wait for another that does not fly.
        """
        self._exact = exact
        self._clock = clock
        self._events = events
        self._calls = calls
        self._circles = tuple(circles)
        self._max_wait_seconds = max_wait_seconds
        self._open: dict[CacheKey, Flight] = {}

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
            flight.finish(Crashed(CallForked(message, upstream=ask.upstream.name)))
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
            end = await self._calls.make(flight, ask, may_fill=may_fill)
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

    def _stamp(self, question: Question) -> tuple[SourceValue, ...]:
        if question.namespace is None:
            return ()
        current_source = partial(self._exact.source_value, question.namespace)
        return stamp(question.request_class, question.sources, current_source)
