"""Repeats of requests for vectors: answered from memory without parsing or writing anything.

What makes a request a repeat is a digest of its bytes, made by whoever reads them. Behind it stand
the ask that the long way made of the same bytes once, and the reply it got last time, which holds
for as long as memory has the same vectors.
"""

from collections import OrderedDict
from dataclasses import dataclass

from stepwell.core.clock import Clock
from stepwell.core.entry import Usage
from stepwell.core.events import RequestEnded, Result
from stepwell.core.ports import EventSink
from stepwell.embedding.cache.job import Given
from stepwell.pipeline.embedding_asks import EmbeddingAsk
from stepwell.pipeline.embedding_exchange import ENDPOINT, LAYER
from stepwell.pipeline.embeddings import EmbeddingDesk
from stepwell.pipeline.exchange import NOBODY, spell

MAX_BODY_BYTES = 16 << 10
"""A longer request goes the long way."""

OVERHEAD_BYTES = 2_048
"""Charged for each ask, on top of its body and its reply's."""

_NO_USAGE = Usage()


@dataclass(slots=True)
class _Repeat:
    ask: EmbeddingAsk
    tenant: str
    trail: str
    given: tuple[Given, ...] = ()
    """The vectors in ``body``; kept, so that no other one can be taken for one of them."""
    body: bytes = b""
    """The reply, once it has been written."""

    @property
    def size_bytes(self) -> int:
        numbers = sum([given.embedding.vector.nbytes for given in self.given])
        return len(self.ask.sending.body) + len(self.body) + numbers + OVERHEAD_BYTES


class EmbeddingRepeats:
    """Finds and answers repeats. One event loop; not thread-safe. Cost: some 10 us a text."""

    def __init__(
        self, desk: EmbeddingDesk, *, clock: Clock, events: EventSink, max_bytes: int
    ) -> None:
        """Know nothing yet.

        Args:
            desk: Looks into memory.
            clock: The time.
            events: Hears of every hit.
            max_bytes: Of asks and replies; those used longest ago are forgotten first.
        """
        self._desk = desk
        self._clock = clock
        self._events = events
        self._max_bytes = max_bytes
        self._bytes = 0
        self._repeats: OrderedDict[bytes, _Repeat] = OrderedDict()

    def remember(self, digest: bytes, ask: EmbeddingAsk) -> None:
        """Note what a request with this digest asks."""
        if len(ask.sending.body) > MAX_BODY_BYTES:
            return
        trail = f"embedding: {len(ask.request.inputs)} from memory"
        self._forget(digest)
        self._keep(digest, _Repeat(ask, spell(ask.namespace), trail))

    def answer(self, digest: bytes) -> bytes | None:
        """Return the body of the reply, if memory has all vectors, and count it as a hit."""
        repeat = self._repeats.get(digest)
        if repeat is None:
            return None
        started = self._clock.monotonic()
        found = self._desk.known_now(repeat.ask)
        if found is None:
            return None
        if not _same(found, repeat.given):
            self._forget(digest)
            repeat.given, repeat.body = found, self._desk.write(repeat.ask, found)
            self._keep(digest, repeat)
        else:
            self._repeats.move_to_end(digest)
        self._count(repeat, self._clock.monotonic() - started)
        return repeat.body

    def _count(self, repeat: _Repeat, seconds: float) -> None:
        self._events.emit(
            RequestEnded(  # By position: this is made for every hit, and names cost as much again.
                _HIT,
                LAYER,
                NOBODY,
                ENDPOINT,
                repeat.ask.request.model,
                repeat.ask.sending.target.upstream.name,
                200,
                False,  # noqa: FBT003
                seconds,
                seconds,
                _NO_USAGE,
                0.0,
                repeat.trail,
                repeat.tenant,
            )
        )

    def _keep(self, digest: bytes, repeat: _Repeat) -> None:
        self._repeats[digest] = repeat
        self._bytes += repeat.size_bytes
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._repeats)))

    def _forget(self, digest: bytes) -> None:
        repeat = self._repeats.pop(digest, None)
        if repeat is not None:
            self._bytes -= repeat.size_bytes


def _same(found: tuple[Given, ...], before: tuple[Given, ...]) -> bool:
    """Return whether both are the same objects, which nobody changes."""
    return len(found) == len(before) and all(
        one.embedding is other.embedding for one, other in zip(found, before, strict=True)
    )


_HIT = Result.HIT
