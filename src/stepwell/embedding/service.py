"""The serving side of the host's embedder: connections, one bounded queue, computing threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar, cast

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Unfit
from stepwell.embedding.encoder import Encoder, Row, Scorer, score_pair
from stepwell.embedding.frames import (
    Answer,
    Ask,
    BadFrame,
    Compare,
    Compared,
    Computed,
    Failed,
    Frames,
    Hello,
    Idle,
    Probe,
    Refused,
    frame,
    question,
)
from stepwell.embedding.in_process import outcome_of

K = TypeVar("K")
V = TypeVar("V")

Deliver = Callable[[V | EmbeddingError], None]


class Waiting(Generic[K, V]):
    """Who waits for what: the same thing is computed once, for all who ask meanwhile."""

    def __init__(self) -> None:
        self._sharers: dict[K, list[Deliver[V]]] = {}

    def __len__(self) -> int:
        return len(self._sharers)

    def joined(self, key: K, deliver: Deliver[V]) -> bool:
        """Return whether ``key`` is being computed; then ``deliver`` hears of it."""
        sharers = self._sharers.get(key)
        if sharers is None:
            return False
        sharers.append(deliver)
        return True

    def begin(self, key: K, deliver: Deliver[V]) -> Deliver[V]:
        """Note that ``key`` is being computed; return what is to be told of it."""
        self._sharers[key] = [deliver]
        return partial(self._done, key)

    def _done(self, key: K, outcome: V | EmbeddingError) -> None:
        for deliver in self._sharers.pop(key):
            deliver(outcome)


class Desk:
    """The computing threads, and what waits for them. For one event loop.

    Identical texts and pairs, from whichever connection, are computed once.
    """

    def __init__(
        self, encoder: Encoder, *, threads: int, queue: int, scorer: Scorer | None = None
    ) -> None:
        """Compute on ``threads`` threads; no more than ``queue`` things wait or are computed."""
        self._encoder = encoder
        self._scorer = scorer
        self._queue = queue
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="embedder")
        self._texts = Waiting[str, Row]()
        self._pairs = Waiting[tuple[str, str], float | None]()

    def ask(self, text: str, deliver: Deliver[Row]) -> None:
        """Have ``text`` computed, and what becomes of it delivered, on the event loop."""
        self._ask(self._texts, text, partial(self._encoder.encode, text), deliver)

    def compare(self, pair: tuple[str, str], deliver: Deliver[float | None]) -> None:
        """Have the texts of ``pair`` compared, in the same way."""
        self._ask(self._pairs, pair, partial(score_pair, self._scorer, pair), deliver)

    def probe(self, deliver: Deliver[Row]) -> None:
        """Have something delivered by a computing thread, whatever it is."""
        self._submit(partial(self._encoder.encode, ""), deliver)

    def _ask(
        self, waiting: Waiting[K, V], key: K, compute: Callable[[], V], deliver: Deliver[V]
    ) -> None:
        if waiting.joined(key, deliver):
            return
        if len(self._texts) + len(self._pairs) >= self._queue:
            deliver(EmbeddingError(f"{self._queue} texts are waiting already"))
        else:
            self._submit(compute, waiting.begin(key, deliver))

    def _submit(self, compute: Callable[[], V], deliver: Deliver[V]) -> None:
        loop = asyncio.get_running_loop()

        def hand_over(computing: Future[V]) -> None:
            outcome = outcome_of(computing)
            loop.call_soon_threadsafe(deliver, outcome)

        self._pool.submit(compute).add_done_callback(hand_over)


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
        match question(body):
            case Ask(number, text):
                self._desk.ask(text, lambda row: self._say(_vector(number, row)))
            case Compare(number, one, other):
                self._desk.compare((one, other), lambda score: self._say(_score(number, score)))
            case Probe(number):
                self._desk.probe(lambda _: self._say(Idle(number)))

    def _say(self, answer: Answer) -> None:
        if self._transport is not None:
            self._transport.write(frame(answer))


def _vector(number: int, outcome: Row | EmbeddingError) -> Answer:
    match outcome:
        case EmbeddingError():
            return Failed(number, str(outcome))
        case Unfit():
            return Refused(number, outcome)
        case vector:
            return Computed(number, vector.astype("<f4", copy=False).tobytes())


def _score(number: int, outcome: float | EmbeddingError | None) -> Answer:
    match outcome:
        case EmbeddingError():
            return Failed(number, str(outcome))
        case score:
            return Compared(number, score)
