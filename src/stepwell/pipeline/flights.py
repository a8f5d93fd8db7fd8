"""Single-flight: identical concurrent misses cost one upstream call."""

import asyncio
from dataclasses import replace

from stepwell.core.clock import Clock
from stepwell.core.entry import Answer, Entry, SourceValue, Usage
from stepwell.core.errors import UpstreamBroken, UpstreamError
from stepwell.core.events import FillRefused, Stored, UpstreamAnswered
from stepwell.core.names import CacheKey, Form
from stepwell.core.ports import EventSink, Reply
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.fill import Made, fill
from stepwell.pipeline.flight import Crashed, End, Flight, Head, Landed
from stepwell.pipeline.neighbours import Followed, Neighbours
from stepwell.pipeline.question import Ask
from stepwell.policy.gates import Gate
from stepwell.policy.sources import stamp
from stepwell.wire.summary import summarise

_REFUSES_OPTIONS = frozenset({400, 422})
"""Statuses of a server that does not know ``stream_options``."""

_PAUSE_SECONDS = 0.005

_CONTENT_TYPES = {
    Form.JSON: (("content-type", "application/json"),),
    Form.SSE: (("content-type", "text/event-stream; charset=utf-8"),),
}


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
        neighbours: Neighbours | None = None,
        max_wait_seconds: float = 120.0,
    ) -> None:
        """Start with no flight.

        Args:
            exact: Where answers are kept.
            clock: The time.
            events: Hears of answers, and why they were not stored.
            neighbours: The other workers; without them, this one shares with itself only.
            max_wait_seconds: How long to wait for a neighbour that does not fly.
        """
        self._exact = exact
        self._clock = clock
        self._events = events
        self._neighbours = neighbours
        self._max_wait_seconds = max_wait_seconds
        self._open: dict[CacheKey, Flight] = {}
        self._plain: set[str] = set()
        """Upstreams that refuse ``stream_options``; asked as the caller asks from then on."""

    def __len__(self) -> int:
        return len(self._open)

    def under_way(self, key: CacheKey) -> Flight | None:
        """Return the flight for ``key`` that can still be joined, if there is one."""
        flight = self._open.get(key)
        return flight if flight is not None and flight.kept_whole else None

    def launch(self, ask: Ask, *, may_fill: bool, share: bool) -> Flight:
        """Start a call. With ``share``, others find it `under_way`; nobody may be there yet."""
        question = ask.question
        flight = Flight(max_kept_bytes=question.request_class.max_answer_bytes if may_fill else 0)
        key = question.key if share else None
        if key is not None:
            self._open[key] = flight
        flight.start(lambda flight: self._write(flight, ask, key, may_fill=may_fill))
        return flight

    async def _write(
        self, flight: Flight, ask: Ask, key: CacheKey | None, *, may_fill: bool
    ) -> None:
        """Write a flight: by a call of our own, or by reading a neighbour's."""
        try:
            if key is None or self._neighbours is None:
                await self._fly(flight, ask, key, may_fill=may_fill)
            else:
                await self._fly_in_turn(self._neighbours, flight, ask, key, may_fill=may_fill)
        finally:
            self._close(key, flight)

    async def _fly_in_turn(
        self,
        neighbours: Neighbours,
        flight: Flight,
        ask: Ask,
        key: CacheKey,
        *,
        may_fill: bool,
    ) -> None:
        """Fly if no neighbour does; else follow it. After one that failed, try once more."""
        started, deadline = self._clock.now(), self._clock.monotonic() + self._max_wait_seconds
        lost = False
        while self._clock.monotonic() < deadline:
            holder = neighbours.claim(key)
            if holder is None:
                try:
                    await self._fly_unless_made(flight, ask, key, started, may_fill=may_fill)
                finally:
                    neighbours.release(key)
                return
            flight.borrowed = True
            match await neighbours.follow(holder, key, flight):
                case Followed.TO_THE_END:
                    return
                case Followed.LOST if lost:
                    error = UpstreamBroken("Two other calls failed.", upstream=ask.upstream.name)
                    flight.finish(Crashed(error))
                    return
                case Followed.LOST:
                    lost = True
                case Followed.NOT_THERE:
                    # It is about to begin, or storing what it got: a matter of milliseconds.
                    await asyncio.sleep(_PAUSE_SECONDS)
        await self._fly(flight, ask, key, may_fill=may_fill)

    async def _fly_unless_made(
        self, flight: Flight, ask: Ask, key: CacheKey, started: float, *, may_fill: bool
    ) -> None:
        """Fly, unless a neighbour has stored the answer since this request began."""
        found = await self._exact.lookup(key)
        if found is None or found[0].created_at < started:
            await self._fly(flight, ask, key, may_fill=may_fill)
            return
        entry = found[0]
        flight.borrowed = True
        flight.begin(Head(200, _CONTENT_TYPES[entry.answer.form], entry.answer.form))
        await flight.extend(entry.answer.body)
        flight.finish(Landed(entry))

    async def _fly(self, flight: Flight, ask: Ask, key: CacheKey | None, *, may_fill: bool) -> None:
        """Call the model server, then store what it said."""
        flight.borrowed = False
        made = Made(self._exact.position(), self._stamp(ask))
        started = self._clock.monotonic()
        entry = None
        end: End
        try:
            head = await self._call(flight, ask, for_keeps=may_fill)
            made = replace(made, seconds=self._clock.monotonic() - started)
            if may_fill and flight.kept_whole:
                entry = self._fill(flight.body(), head, ask, made)
            end = Landed(entry)
        except UpstreamError as error:
            end = Crashed(error)
        self._close(key, flight)
        flight.finish(end)
        if entry is not None:
            await self._exact.share(entry)

    def _close(self, key: CacheKey | None, flight: Flight) -> None:
        if key is not None and self._open.get(key) is flight:
            del self._open[key]

    async def _call(self, flight: Flight, ask: Ask, *, for_keeps: bool) -> Head:
        reply = await self._send(ask, for_keeps=for_keeps)
        try:
            head = Head(reply.status, reply.headers, _form(reply))
            flight.begin(head)
            async for chunk in reply.chunks():
                await flight.extend(chunk)
        finally:
            await reply.aclose()
        return head

    async def _send(self, ask: Ask, *, for_keeps: bool) -> Reply:
        """Send the call; a server that refuses ``stream_options`` is asked without, from now on."""
        name = ask.upstream.name
        if not for_keeps or ask.call is ask.plain_call or name in self._plain:
            return await ask.upstream.send(ask.plain_call)
        reply = await ask.upstream.send(ask.call)
        if reply.status not in _REFUSES_OPTIONS:
            return reply
        plain = await ask.upstream.send(ask.plain_call)
        if plain.status in _REFUSES_OPTIONS:
            # The request itself is at fault.
            await reply.aclose()
            return plain
        self._plain.add(name)
        await reply.aclose()
        return plain

    def _fill(self, body: bytes, head: Head, ask: Ask, made: Made) -> Entry | None:
        """Pass the answer through the write gates and keep it in memory."""
        question = ask.question
        answer = Answer(head.form, body)
        summary = summarise(question.endpoint, answer)
        if head.status == 200 and summary.complete:  # noqa: PLR2004  (HTTP's own number)
            usage = summary.usage or Usage()
            self._events.emit(
                UpstreamAnswered(ask.upstream.name, question.model, made.seconds, 0.0, usage)
            )
        filled = fill(question, head.status, answer, summary, made, self._clock.now())
        if isinstance(filled, Gate):
            self._events.emit(FillRefused(filled, question.request_class.name))
            return None
        if not self._exact.keep(filled):
            self._events.emit(FillRefused("invalidated", question.request_class.name))
            return None
        self._events.emit(Stored(question.request_class.name, filled.size_bytes))
        return filled

    def _stamp(self, ask: Ask) -> tuple[SourceValue, ...]:
        question = ask.question
        if question.namespace is None:
            return ()
        namespace = question.namespace
        return stamp(
            question.request_class,
            question.sources,
            lambda name: self._exact.source_value(namespace, name),
        )


def _form(reply: Reply) -> Form:
    content_type = next((value for name, value in reply.headers if name == "content-type"), "")
    media_type = content_type.partition(";")[0].strip().lower()
    return Form.SSE if media_type == "text/event-stream" else Form.JSON
