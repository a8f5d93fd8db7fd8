"""A call of our own: the model server is asked, and its answer kept if it may be."""

from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus

from stepwell.core.clock import Clock
from stepwell.core.entry import Answer, Usage
from stepwell.core.errors import UpstreamBroken
from stepwell.core.events import Degraded, FillRefused, Stored, UpstreamAnswered
from stepwell.core.names import Form
from stepwell.core.ports import EventSink, Paraphrases, Reply
from stepwell.core.steering import SupportsNotes
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.fill import Came, fill
from stepwell.pipeline.flight import Flight, Head, Landed
from stepwell.pipeline.groups import Groups
from stepwell.pipeline.leg import Leg
from stepwell.pipeline.question import Ask, Question
from stepwell.policy.gates import Gate, refusal_in_advance
from stepwell.wire.cache_groups import GROUPS, field_of
from stepwell.wire.summary import summarise

_REFUSES_OPTIONS = frozenset({400, 422})
"""Statuses of a server that does not know ``stream_options``."""

_FINAL_STATUSES = range(200, 600)
"""Others are no final reply in HTTP (RFC 9110, 15)."""


@dataclass(frozen=True, slots=True)
class _Took:
    """How long a call took."""

    seconds: float
    first_byte_seconds: float


class Calls:
    """Makes calls. Safe for many tasks on one event loop."""

    def __init__(
        self,
        exact: ExactLayer,
        *,
        clock: Clock,
        events: EventSink,
        paraphrases: Paraphrases | None = None,
        groups: Groups | None = None,
    ) -> None:
        """Keep answers in ``exact``; ``paraphrases`` learns what is kept.

        ``groups`` obeys what model servers say of other answers.
        """
        self._exact = exact
        self._clock = clock
        self._events = events
        self._paraphrases = paraphrases
        self._groups = groups
        self._in_flight: Counter[str] = Counter()
        self._plain: set[str] = set()
        """Upstreams that refuse ``stream_options``; asked as the caller asks from then on."""

    async def make(self, flight: Flight, ask: Ask, *, may_fill: bool) -> Landed:
        """Ask the model server; return its answer as an entry, or why it is not stored.

        Raises:
            UpstreamError: It failed.
            RequestError: HTTP cannot carry the request.
            Diverged: The flight has a part of another answer.
        """
        name = ask.upstream.name
        self._in_flight[name] += 1
        try:
            return await self._make(flight, ask, may_fill=may_fill)
        finally:
            self._in_flight[name] -= 1

    def in_flight(self, upstream: str) -> int:
        """Return how many calls to an upstream are under way."""
        return self._in_flight[upstream]

    async def _make(self, flight: Flight, ask: Ask, *, may_fill: bool) -> Landed:
        started = self._clock.monotonic()
        reply = await self._send(ask, for_keeps=may_fill)
        if reply.status not in _FINAL_STATUSES:
            await reply.aclose()
            name = ask.upstream.name
            raise UpstreamBroken(f"{name} answered with status {reply.status}", upstream=name)
        first_byte_seconds = self._clock.monotonic() - started
        notes = reply if isinstance(reply, SupportsNotes) else None
        head = Head(reply.status, reply.headers, _form(reply), notes)
        try:
            if self._groups is not None:
                namespace = ask.question.namespace
                await self._groups.heed(ask.upstream.name, namespace, head.status, head.headers)
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
        if summary.usage_fault:
            self._events.emit(Degraded(f"usage.{ask.upstream.name}", summary.usage_fault))
        now = self._clock.now()
        groups_field = field_of(head.headers, GROUPS)
        came = Came(head.status, answer, summary, took.seconds, groups_field)
        filled = fill(question, came, flight.made, now)
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


def _form(reply: Reply) -> Form:
    content_type = next((value for name, value in reply.headers if name == "content-type"), "")
    media_type = content_type.partition(";")[0].strip().lower()
    return Form.SSE if media_type == "text/event-stream" else Form.JSON
