"""From a flight to the reply of one of its readers."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from stepwell.core.entry import Answer
from stepwell.core.errors import CallForked, UpstreamBroken, UpstreamError
from stepwell.core.events import Result
from stepwell.core.names import Form
from stepwell.core.outcome import Bypass
from stepwell.pipeline.flight import Flight, Head, Landed, Reader
from stepwell.pipeline.leg import MAX_HELD_BYTES
from stepwell.pipeline.plan import Forward
from stepwell.pipeline.question import Question
from stepwell.pipeline.served import Body, Served
from stepwell.pipeline.trail import say_prefix, trail_of
from stepwell.wire.errors import error_event
from stepwell.wire.render import UsageFilter, render
from stepwell.wire.sse import EventTooLarge
from stepwell.wire.summary import summarise

OK = 200


class Unsuitable(Exception):
    """A reply that is not in the shape this reader needs, and cannot be brought into it."""


@dataclass(frozen=True, slots=True)
class Relay:
    """One reader's way of getting its reply out of a flight."""

    question: Question
    step: Forward
    flight: Flight
    reader: Reader
    leads: bool
    """Whether the call was made for this request."""

    async def serve(self, head: Head) -> Served:
        """Return the reply, once its head is there.

        The request the call was made for gets what the model server sends, whatever it is.
        Others get it live where they want the same form, else when it has landed.

        Raises:
            UpstreamError: The reply broke before any of it was handed on.
            Unsuitable: A follower cannot use this reply.
        """
        as_it_comes = self.leads or head.form is self.question.shape.form or head.status != OK
        if not as_it_comes:
            return self._rendered(await self._landed())
        if head.form is Form.SSE:
            return self._live(head)
        return await self._whole(head)

    async def _landed(self) -> Landed:
        try:
            return await self.reader.landed()
        except CallForked as error:
            raise Unsuitable from error  # Nothing of it was handed on here.

    def _live(self, head: Head) -> Served:
        """A stream, passed on event by event."""
        served = self._served(head)
        chunks = self.reader.chunks()
        if self.step.fill and not self.question.shape.include_usage:
            # The server was asked for its usage so that the entry has it; this caller did not.
            chunks = _without_usage(chunks)
        served.body = Body(self._with_last_words(chunks, served), self.reader.leave)
        served.stored = self.step.fill and head.status == OK
        return served

    async def _with_last_words(
        self, chunks: AsyncIterator[bytes], served: Served
    ) -> AsyncIterator[bytes]:
        """A stream that breaks ends with an error event, so that nobody takes it for complete."""
        try:
            async for chunk in chunks:
                yield chunk
        except (UpstreamError, EventTooLarge) as error:
            served.result = Result.ERROR
            served.trail = (*served.trail, f"broke: {error}")
            told = error
            if isinstance(error, EventTooLarge):
                told = UpstreamBroken("An event is too large.", upstream=self.question.upstream)
            # It may have broken within an event, whose last line this must not be part of.
            yield b"\n\n" + error_event(told)
        else:
            self._credit(served)

    async def _whole(self, head: Head) -> Served:
        """A body that is no stream, passed on when it is whole, unless that takes too much room.

        Then it goes before anybody can say whether it was stored.
        """
        served = self._served(head)
        parts: list[bytes] = []
        size = 0
        chunks = self.reader.chunks()
        async for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_HELD_BYTES:
                served.body = Body(_continued(parts, chunks), self.reader.leave)
                return served
        self.reader.leave()
        served.body = b"".join(parts)
        self._credit(served)
        return served

    def _rendered(self, landed: Landed) -> Served:
        """A reply in the other form than this reader's, written anew."""
        head, endpoint = self.flight.head, self.question.endpoint
        if head is None or not self.flight.kept_whole:
            raise Unsuitable
        answer = Answer(head.form, self.flight.body())
        complete = landed.entry is not None or summarise(endpoint, answer).complete
        body = render(endpoint, answer, self.question.shape) if complete else None
        if body is None:
            raise Unsuitable
        self.reader.leave()
        served = self._served(Head(OK, (), self.question.shape.form))
        served.body = body
        self._credit(served)
        return served

    def _served(self, head: Head) -> Served:
        result = Result.COLLAPSED
        if self.leads:
            is_bypass = isinstance(self.step.outcome, Bypass)
            result = Result.BYPASS if is_bypass else Result.MISS
        return Served(
            result=result,
            outcome=self.step.outcome,
            status=head.status,
            form=head.form,
            body=b"",
            headers=head.headers,
            key=self.question.key,
            trail=self._trail(head),
        )

    def _trail(self, head: Head) -> tuple[str, ...]:
        """What there is to say by now."""
        return (
            *trail_of(self.step.outcome),
            *(f"prompt: {what}" for what in self.question.reshaped),
            *(head.notes.noted if self.leads and head.notes is not None else ()),
            f"{self.question.upstream}: {head.status}",
        )

    def _credit(self, served: Served) -> None:
        """Write down what became of a whole answer: stored or not, its cost, what was saved."""
        end = self.flight.end
        if not isinstance(end, Landed):
            return
        served.usage = end.usage
        served.saved_seconds = 0.0 if self.leads else end.upstream_seconds
        served.stored = end.entry is not None
        if end.entry is not None:
            served.usage = end.entry.usage
            served.saved_seconds = 0.0 if self.leads else end.entry.upstream_seconds
        if self.leads and self.flight.head is not None:
            served.trail = self._trail(self.flight.head)  # More may be known than at the head.
            if served.usage is not None and (prefix := say_prefix(served.usage)):
                served.trail = (*served.trail, prefix)
        if end.gate:
            served.refused = end.gate
            served.trail = (*served.trail, f"not stored: {end.gate}")


async def _without_usage(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    without = UsageFilter()
    async for chunk in chunks:
        if kept := without.feed(chunk):
            yield kept
    if rest := without.finish():
        yield rest


async def _continued(parts: Sequence[bytes], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    async for chunk in chunks:
        yield chunk
