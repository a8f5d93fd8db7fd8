"""The serving side of the host's embedder: connections, one bounded queue, computing threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import cast

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Unfit
from stepwell.embedding.encoder import Encoder, Row
from stepwell.embedding.frames import (
    Answer,
    Ask,
    BadFrame,
    Computed,
    Failed,
    Frames,
    Hello,
    Idle,
    Refused,
    frame,
    question,
)
from stepwell.embedding.in_process import outcome_of

Deliver = Callable[[Row | EmbeddingError], None]


class Desk:
    """The computing threads, and what waits for them. For one event loop.

    Identical texts, from whichever connection, are computed once.
    """

    def __init__(self, encoder: Encoder, *, threads: int, queue: int) -> None:
        """Compute on ``threads`` threads; no more than ``queue`` texts wait or are computed."""
        self._encoder = encoder
        self._queue = queue
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embedder")
        self._waiting: dict[str, list[Deliver]] = {}

    def ask(self, text: str, deliver: Deliver) -> None:
        """Have ``text`` computed, and what becomes of it delivered, on the event loop."""
        sharers = self._waiting.get(text)
        if sharers is not None:
            sharers.append(deliver)
        elif len(self._waiting) >= self._queue:
            deliver(EmbeddingError(f"{self._queue} texts are waiting already"))
        else:
            self._waiting[text] = [deliver]
            self._submit(partial(self._encoder.encode, text), partial(self._done, text))

    def probe(self, deliver: Deliver) -> None:
        """Have something delivered by a computing thread, whatever it is."""
        self._submit(partial(self._encoder.encode, ""), deliver)

    def _submit(self, compute: Callable[[], Row], deliver: Deliver) -> None:
        loop = asyncio.get_running_loop()

        def hand_over(computing: Future[Row]) -> None:
            loop.call_soon_threadsafe(deliver, outcome_of(computing))

        self._pool.submit(compute).add_done_callback(hand_over)

    def _done(self, text: str, outcome: Row | EmbeddingError) -> None:
        for deliver in self._waiting.pop(text):
            deliver(outcome)


class Connection(asyncio.Protocol):
    """One client. A client that does not read its answers is not read from either."""

    def __init__(self, desk: Desk, hello: Hello) -> None:
        self._desk = desk
        self._hello = hello
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        self._transport = cast("asyncio.Transport", transport)
        self._say(self._hello)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the client; what it asked for is computed and dropped."""
        self._transport = None

    def pause_writing(self) -> None:
        """Read no more until the client has read."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Take questions."""
        try:
            for body in self._frames.feed(data):
                self._take(body)
        except BadFrame:
            if self._transport is not None:
                self._transport.abort()

    def _take(self, body: bytes) -> None:
        asked = question(body)
        if isinstance(asked, Ask):
            self._desk.ask(asked.text, partial(self._tell, asked.number))
        else:
            self._desk.probe(lambda _: self._say(Idle(asked.number)))

    def _tell(self, number: int, outcome: Row | EmbeddingError) -> None:
        self._say(_answer(number, outcome))

    def _say(self, answer: Answer) -> None:
        if self._transport is not None:
            self._transport.write(frame(answer))


def _answer(number: int, outcome: Row | EmbeddingError) -> Answer:
    match outcome:
        case EmbeddingError():
            return Failed(number, str(outcome))
        case Unfit():
            return Refused(number, outcome)
        case vector:
            return Computed(number, vector.astype("<f4", copy=False).tobytes())
