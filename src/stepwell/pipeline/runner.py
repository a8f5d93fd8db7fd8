"""Does what the plan says: asks the layers, shares calls, hands back a reply.

This is one request through the house, from the question to the reply; `answer` is where it starts.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import assert_never

from stepwell.core.clock import Clock
from stepwell.core.entry import Entry
from stepwell.core.errors import RequestError, StoreError, UpstreamError
from stepwell.core.events import Degraded, HitWithheld, Result, StageTimed
from stepwell.core.names import CacheKey
from stepwell.core.outcome import Hit, Miss, Outcome, Stale
from stepwell.core.ports import EventSink
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.behind import Behind
from stepwell.pipeline.flight import Flight, Head, Reader
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.hit_id import name_hit, write_hit_id
from stepwell.pipeline.lookups import Lookups
from stepwell.pipeline.plan import Forward, LookUp, Refuse, Serve, Step, first_step, next_step
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.relay import Relay, Unsuitable
from stepwell.pipeline.renderings import Renderings, Unrenderable
from stepwell.pipeline.served import Served
from stepwell.pipeline.trail import trail_of
from stepwell.wire.shape import Shape

MAX_REFRESHES = 64
"""How many new answers may be fetched behind stale ones at a time."""

_NOTHING_BEHIND = Behind()

_SERVER_ERROR = 500
_TOO_MANY = 429


class _FailedStatus(Exception):
    """A reply in whose place a better one can be had."""


class Runner:
    """Walks questions through the layers.

    Safe for many tasks on one event loop. Not safe across threads.
    """

    def __init__(  # noqa: PLR0913  (the parts of the walk)
        self,
        exact: ExactLayer,
        lookups: Lookups,
        flights: Flights,
        renderings: Renderings,
        *,
        clock: Clock,
        events: EventSink,
        max_wait_seconds: float,
        behind: Behind = _NOTHING_BEHIND,
    ) -> None:
        """Put the parts together.

        Args:
            exact: Knows the sources.
            lookups: The layers.
            flights: The calls under way.
            renderings: Turns entries into bodies.
            clock: The time.
            events: Hears what went wrong.
            max_wait_seconds: How long a follower waits for another's reply to begin before it
                makes a call of its own.
            behind: What is done when an answer has been given.
        """
        self._exact = exact
        self._lookups = lookups
        self._flights = flights
        self._renderings = renderings
        self._clock = clock
        self._events = events
        self._max_wait_seconds = max_wait_seconds
        self._behind = behind
        self._refreshing: dict[CacheKey, asyncio.Task[None]] = {}

    def answer_now(self, question: Question) -> Served | None:
        """Answer from this worker's memory, without waiting for anything, or not at all.

        This is the hot path: what it declines, `answer` does in full. Cost: a few microseconds.
        """
        if not question.may_be_repeat or (question.sources and self._states_news(question)):
            return None
        served = self._from_memory(question)
        if served is None or not isinstance(served.outcome, Hit):
            return None
        is_alone = self._clock.now() < self.alone_until(question, served.outcome.entry)
        return served if is_alone else None

    def alone_until(self, question: Question, entry: Entry) -> float:
        """Return until when a hit may be answered without its request: nothing is done behind."""
        return self._behind.due_at(question, entry)

    def render(self, entry: Entry, shape: Shape) -> bytes:
        """Return the body of ``entry`` in ``shape``. See `Renderings.of`."""
        return self._renderings.of(entry, shape)

    async def answer(self, ask: Ask) -> Served:
        """Answer one request.

        Raises:
            RequestError: The caller's conditions cannot be met, or HTTP cannot carry its request.
            UpstreamError: The model server failed before its reply began, and nothing stale
                could stand in.
        """
        question = ask.question
        started = self._clock.monotonic()
        await self._note_sources(question)
        step = await self.foresee(question, ask)
        self._events.emit(StageTimed("lookup", self._clock.monotonic() - started))
        match step:
            case Refuse():
                raise step.error
            case Serve():
                if step.refresh:
                    self._refresh(ask)
                served = self._serve(question, step.outcome, self._clock.now())
                self._behind.served(ask, step.outcome)
                return served
            case Forward():
                if _withheld(step.outcome) is not None:
                    self._events.emit(HitWithheld(question.request_class.name))
                return await self._forward(ask, step)
            case _:
                assert_never(step)

    async def foresee(self, question: Question, ask: Ask | None = None) -> Step:
        """Return what would be done about ``question``, without doing it.

        Without the ``ask`` its model server is not asked for a second opinion.
        """
        step = first_step(question)
        if not isinstance(step, LookUp):
            return step
        found = await self._lookups.find(question, ask)
        return next_step(question, found, self._clock.now())

    async def aclose(self) -> None:
        """Stop what was started behind answers."""
        for task in list(self._refreshing.values()):
            task.cancel()
        await asyncio.gather(*self._refreshing.values(), return_exceptions=True)
        await self._behind.aclose()

    def _states_news(self, question: Question) -> bool:
        """Return whether the request states a source value that is not known yet."""
        return any(
            self._exact.source_value(question.namespace, source.name) != source.value
            for source in question.sources
            if question.namespace is not None
        )

    async def _note_sources(self, question: Question) -> None:
        """Make the source values a request states the current ones, for everybody."""
        if question.namespace is None:
            return
        for source in question.sources:
            if self._exact.source_value(question.namespace, source.name) == source.value:
                continue
            try:
                await self._exact.move_source(question.namespace, source)
            except StoreError as error:
                # Others go on with the old value; this request is judged by its own.
                self._events.emit(Degraded("sources", str(error)))

    def _from_memory(self, question: Question, before: tuple[str, ...] = ()) -> Served | None:
        """Serve what this worker's memory has, if that is fresh and fits.

        Args:
            question: May be answered by the layers.
            before: What they have said so far.
        """
        now = self._clock.now()
        found = self._lookups.peek(question, now)
        if not isinstance(found, Hit):
            return None
        try:
            return self._serve(question, replace(found, before=before) if before else found, now)
        except Unrenderable:
            return None

    def _serve(self, question: Question, found: Hit | Stale, now: float) -> Served:
        entry = found.entry
        body = self._renderings.of(entry, question.shape)
        return Served(
            result=Result.HIT if isinstance(found, Hit) else Result.STALE,
            outcome=found,
            status=200,
            form=question.shape.form,
            body=body,
            key=entry.key,
            hit_id=_hit_id(question, found),
            age_seconds=max(0.0, now - entry.created_at),
            ttl_seconds=entry.expires_at - now,
            usage=entry.usage,
            saved_seconds=entry.upstream_seconds,
            trail=trail_of(found),
        )

    async def _forward(self, ask: Ask, step: Forward, *, after: Flight | None = None) -> Served:
        """Put the question to the model server, or read the reply to another who did.

        A follower whose leader failed, or who cannot use the reply, asks once more, as leader or
        behind another one than ``after``; a follower that has waited too long, or cannot use the
        second reply either, makes a call of its own. None is made for what has come into memory
        while the layers were asked, or another flight was followed.
        """
        boarded = self._board(ask, step, after)
        if isinstance(boarded, Served):
            return boarded
        flight, leads = boarded
        may_ask_again = after is None and not leads
        spare = may_ask_again or step.fallback is not None
        try:
            served = await self._read(ask, step, flight, leads=leads, spare=spare)
        except (_FailedStatus, UpstreamError, RequestError) as error:
            if not may_ask_again:
                return self._stand_in(ask.question, step, error)
        except (TimeoutError, Unsuitable) as reason:
            if isinstance(reason, TimeoutError) or not may_ask_again:
                step = replace(step, share=False)
        else:
            withheld = _withheld(step.outcome)
            if withheld is not None and leads and not flight.borrowed:
                self._behind.withheld(ask, withheld, flight)
            return served
        return await self._forward(ask, step, after=flight)

    async def _read(
        self, ask: Ask, step: Forward, flight: Flight, *, leads: bool, spare: bool
    ) -> Served:
        """Return what ``flight`` brings.

        Raises:
            _FailedStatus: A status that says only that it failed, while there is a ``spare``.
            TimeoutError: Somebody else's reply did not begin in time.
            UpstreamError, RequestError, Unsuitable: As `Reader.head` and `Relay.serve`.
        """
        reader = flight.join()
        try:
            head = await (reader.head() if leads else self._head_in_time(reader))
            if spare:
                _check(head.status)
            leads = leads and not flight.borrowed
            return await Relay(ask.question, step, flight, reader, leads).serve(head)
        except BaseException:
            reader.leave()
            raise

    def _stand_in(self, question: Question, step: Forward, error: Exception) -> Served:
        """Serve what is stale in place of a failed call, or raise its error if nothing may."""
        if step.fallback is None or isinstance(error, RequestError):
            raise error
        served = self._serve(question, step.fallback, self._clock.now())
        served.trail = (*served.trail, f"{question.upstream}: failed")
        return served

    async def _head_in_time(self, reader: Reader) -> Head:
        async with asyncio.timeout(self._max_wait_seconds):
            return await reader.head()

    def _board(self, ask: Ask, step: Forward, after: Flight | None) -> tuple[Flight, bool] | Served:
        """Return a flight to read, and whether it was launched for this request.

        Or the answer that came meanwhile. Nothing is waited for: what is looked at here, a moment
        before the launch, nobody else can change.
        """
        flight = self._flights.to_join(ask.question) if step.share else None
        if flight is not None and flight is not after:
            return flight, False
        if ask.question.may_be_repeat:
            served = self._from_memory(ask.question, trail_of(step.outcome))
            if served is not None:
                return served
        return self._flights.launch(ask, may_fill=step.fill, share=step.share), True

    def _refresh(self, ask: Ask) -> None:
        """Fetch a new answer behind a stale one, unless somebody does already."""
        key = ask.question.key
        if key is None or key in self._refreshing or len(self._refreshing) >= MAX_REFRESHES:
            return
        if self._flights.to_join(ask.question) is not None:
            return
        reader = self._flights.launch(ask, may_fill=True, share=True).join()
        task = self._refreshing[key] = asyncio.create_task(_landed(reader))
        # Not at the task's end: one that is cancelled before it began never comes to it.
        task.add_done_callback(lambda _: self._end_refresh(key, reader))

    def _end_refresh(self, key: CacheKey, reader: Reader) -> None:
        reader.leave()
        del self._refreshing[key]


async def _landed(reader: Reader) -> None:
    # Failures are counted by the upstream; the next request that finds it stale tries again.
    with suppress(UpstreamError, RequestError):
        await reader.landed()


def _check(status: int) -> None:
    """Raise `_FailedStatus` for a status that says that asking again, or later, may help."""
    if status >= _SERVER_ERROR or status == _TOO_MANY:
        raise _FailedStatus


def _withheld(outcome: Outcome) -> Hit | None:
    return outcome.withheld if isinstance(outcome, Miss) else None


def _hit_id(question: Question, found: Hit | Stale) -> str:
    """Return by which name the caller can speak of a hit on other words; empty for any other."""
    name = name_hit(question, found) if isinstance(found, Hit) else None
    return "" if name is None else write_hit_id(name)
