"""One try at the reply of a flight. It goes on where the one before broke off."""

from http import HTTPStatus

from stepwell.core.entry import Answer
from stepwell.core.errors import UpstreamBroken, UpstreamError
from stepwell.core.names import Endpoint, Form
from stepwell.pipeline.fill import Made
from stepwell.pipeline.flight import Crashed, Flight, Head, Landed
from stepwell.wire.render import render
from stepwell.wire.resume import Resumption
from stepwell.wire.shape import Shape
from stepwell.wire.sse import EventSplitter, EventTooLarge
from stepwell.wire.told import Diverged

MAX_HELD_BYTES = 8 << 20
"""A reply that is no stream is held back until it is whole, unless it is larger."""


class Leg:
    """Writes a reply into a flight, or what goes on after what the flight has of another.

    Not thread-safe.
    """

    def __init__(self, flight: Flight, endpoint: Endpoint) -> None:
        """Begin where ``flight`` is.

        Raises:
            Diverged: What it has cannot be gone on with.
        """
        self._flight = flight
        self._endpoint = endpoint
        self._form = Form.SSE
        self._body: list[bytes] = []
        """Of a reply that is no stream, but goes on with one."""
        self._resumption = None
        if flight.head is not None:
            self._resumption = Resumption(endpoint, flight.body())

    def begin(self, head: Head) -> None:
        """Say how the reply begins.

        Raises:
            Diverged: It is no answer, where half of one is there.
        """
        self._form = head.form
        if self._resumption is None:
            self._flight.begin(head)
        elif head.status != HTTPStatus.OK:
            raise Diverged(f"the second reply has status {head.status}")

    async def extend(self, chunk: bytes) -> None:
        """Add bytes of the body.

        Raises:
            Diverged: They say something else than was said already.
        """
        if self._resumption is None:
            await self._flight.extend(chunk)
        elif self._form is not Form.SSE:
            self._body.append(chunk)
        elif more := self._resumption.feed(chunk):
            await self._flight.extend(more)

    async def end(self) -> None:
        """Say that the body has come to its end.

        Raises:
            Diverged: It is shorter than what was said already.
        """
        if self._resumption is None:
            return
        if self._form is not Form.SSE and (more := self._resumption.feed(self._as_stream())):
            await self._flight.extend(more)
        self._resumption.finish()

    def _as_stream(self) -> bytes:
        answer = Answer(self._form, b"".join(self._body))
        for include_usage in (True, False):
            shape = Shape(Form.SSE, include_usage=include_usage)
            if (stream := render(self._endpoint, answer, shape)) is not None:
                return stream
        raise Diverged("the second reply cannot be written as a stream")


class BorrowedLeg:
    """A leg that others fly, who may be lost at any moment.

    What could not be gone on with if they were is held back: half an event, and half of what is
    no stream.
    """

    def __init__(self, flight: Flight, endpoint: Endpoint) -> None:
        """Begin where ``flight`` is. Raises `Diverged` as a `Leg` does."""
        self._flight = flight
        self._leg = Leg(flight, endpoint)
        self._head: Head | None = None
        self._has_begun = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._splitter = EventSplitter()

    @property
    def made(self) -> Made:
        """Under which circumstances the flight's answer is of use."""
        return self._flight.made

    def begin(self, head: Head) -> None:
        """As `Leg.begin`."""
        self._head = head
        if head.form is Form.SSE:
            self._has_begun = True
            self._leg.begin(head)

    async def extend(self, chunk: bytes) -> None:
        """As `Leg.extend`."""
        if self._head is not None and self._head.form is Form.SSE:
            await self._extend_stream(chunk)
            return
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        if self._held_bytes > MAX_HELD_BYTES:
            await self._let_go()

    async def _extend_stream(self, chunk: bytes) -> None:
        try:
            events = self._splitter.feed(chunk)
        except EventTooLarge as error:
            raise Diverged(str(error)) from error
        if events:
            await self._leg.extend(b"".join(events))

    async def land(self, landed: Landed) -> None:
        """Say that the reply has come to its end, and end the flight. Raises as `Leg.end`."""
        await self._let_go()
        await self._leg.end()
        self._flight.finish(landed)

    def crash(self, error: UpstreamError) -> bool:
        """Say that the call failed; return whether that is the flight's end too.

        It is unless nothing of this reply has been handed on.
        """
        if not self._has_begun:
            return False
        self._flight.finish(Crashed(error))
        return True

    def lose(self) -> bool:
        """Say that nobody writes any more; return whether that is the flight's end too.

        It is if all is there but for the word that it is, or if it cannot be gone on with.
        """
        flight = self._flight
        if flight.head is None:
            return False
        if flight.kept_whole and flight.end_announced():
            flight.finish(Landed(None))
        elif not (flight.kept_whole and _is_stream(flight.head)):
            message = "The gateway that made the call was lost."
            flight.finish(Crashed(UpstreamBroken(message, upstream="")))
        return flight.end is not None

    async def _let_go(self) -> None:
        """Pass on what was held back."""
        held, self._held = [*self._held, self._splitter.rest], []
        self._splitter = EventSplitter()
        if self._head is not None and not self._has_begun:
            self._has_begun = True
            self._leg.begin(self._head)
        if rest := b"".join(held):
            await self._leg.extend(rest)


def _is_stream(head: Head) -> bool:
    return head.status == HTTPStatus.OK and head.form is Form.SSE
