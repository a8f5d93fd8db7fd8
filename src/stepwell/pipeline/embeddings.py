"""One ``/v1/embeddings`` request through the embedding cache, from what is asked to the reply."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from stepwell.core.clock import Clock
from stepwell.core.embedding_events import Source
from stepwell.core.errors import (
    EmbeddingError,
    RequestError,
    UpstreamBroken,
    UpstreamTimeout,
)
from stepwell.core.events import Result
from stepwell.core.ports import Headers, Reply
from stepwell.embedding.cache.cache import Batch, EmbeddingCache
from stepwell.embedding.cache.job import Given
from stepwell.embedding.cache.provider import BadReply, NoAnswer, Refused
from stepwell.pipeline.embedding_asks import EmbeddingAsk, EmbeddingIntake, ForeignAsk, Sending
from stepwell.pipeline.embedding_provider import ForeignAnswer, Told
from stepwell.pipeline.groups import Groups
from stepwell.pipeline.plan import unmet
from stepwell.wire.embedding_replies import write_embeddings_reply
from stepwell.wire.errors import error_body

FOREIGN_SECONDS = 600.0
"""How long a server that answered in a form of its own is not asked for vectors of that kind."""

OFF_THE_LOOP_NUMBERS = 64 << 10
"""A reply with more numbers is written in a thread."""

MAX_NOW = 16
"""Inputs of a request that is answered at once; more take too long while others wait."""

_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class Vectors:
    """A reply with the vectors of all inputs."""

    body: bytes
    sources: Counter[Source]
    """How many inputs' vectors came from where."""
    tokens: int
    headers: Headers
    """Of the model server's last reply; empty if it was not asked."""
    is_stored: bool

    @property
    def result(self) -> Result:
        """How the request ended."""
        if self.sources[Source.ORIGIN]:
            return Result.MISS
        return Result.COLLAPSED if self.sources[Source.SHARED] else Result.HIT

    @property
    def is_partial(self) -> bool:
        """Whether some vectors were known and others were not."""
        known = self.sources.total() - self.sources[Source.ORIGIN] - self.sources[Source.SHARED]
        return 0 < known < self.sources.total()


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the model server said instead, as it said it."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The model server's own reply, still coming; close it."""

    reply: Reply
    reason: str
    """Why the cache was kept out of it."""


Answered = Vectors | Refusal | Forwarded


class EmbeddingDesk:
    """Answers asks. For one event loop; safe for many tasks.

    Attributes:
        intake: Makes the asks.
    """

    def __init__(
        self, cache: EmbeddingCache, intake: EmbeddingIntake, groups: Groups, *, clock: Clock
    ) -> None:
        """Put the parts together.

        Args:
            cache: Knows vectors; closed by its owner.
            intake: Makes providers.
            groups: Obey what heads of forwarded replies say.
            clock: The time.
        """
        self.intake = intake
        self._cache = cache
        self._groups = groups
        self._clock = clock

    def known_now(self, ask: EmbeddingAsk) -> tuple[Given, ...] | None:
        """Return the vectors, if this worker's memory has all of them. Waits for nothing."""
        if _reads_nothing(ask) or len(ask.request.inputs) > MAX_NOW:
            return None
        return self._cache.known.peek(ask.known.kind, ask.request.inputs, owner=ask.owner)

    def write(self, ask: EmbeddingAsk, found: tuple[Given, ...]) -> bytes:
        """Return the body of the reply with vectors that were ``found``."""
        return _write(ask, Batch(found))

    def answer_now(self, ask: EmbeddingAsk) -> Vectors | None:
        """Answer from this worker's memory, without waiting for anything, or not at all."""
        found = self.known_now(ask)
        if found is None:
            return None
        batch = Batch(found)
        return _vectors(batch, _write(ask, batch), Told(), is_stored=False)

    async def answer(self, ask: EmbeddingAsk | ForeignAsk) -> Answered:
        """Answer one request.

        Raises:
            RequestError: It must not go on (``only-if-cached``), or HTTP cannot carry it.
            UpstreamError: The model server failed, or its reply has no vectors to give.
        """
        if isinstance(ask, ForeignAsk):
            if ask.directives.only_if_cached:
                raise unmet("this request is never answered from the cache")
            return await self._forward(ask.sending, ask.reason)
        if ask.known.foreign_until > self._clock.monotonic():
            return await self._forward_foreign(ask)
        try:
            return await self._look_up(ask)
        except ForeignAnswer:
            ask.known.foreign_until = self._clock.monotonic() + FOREIGN_SECONDS
            return await self._forward_foreign(ask)
        except Refused as refused:
            return _refusal(refused)
        except EmbeddingError as error:
            raise _failure(error, ask.sending.target.upstream.name) from error

    async def _look_up(self, ask: EmbeddingAsk) -> Vectors:
        directives, request = ask.directives, ask.request
        kind = ask.known.kind
        if directives.only_if_cached:
            found = None
            if not _reads_nothing(ask):
                found = await self._cache.known.find(kind, request.inputs, owner=ask.owner)
            if found is None:
                raise unmet("not all vectors are there")
            return await self._reply(ask, Batch(found), Told(), is_stored=False)
        provider = self.intake.provider(ask)
        batch = await self._cache.get_many(
            kind,
            request.inputs,
            provider,
            owner=ask.owner,
            reads=not _reads_nothing(ask),
            writes=not _writes_nothing(ask),
        )
        if provider.told.model:
            ask.known.served_as = provider.told.model
        return await self._reply(ask, batch, provider.told, is_stored=not _writes_nothing(ask))

    async def _reply(
        self, ask: EmbeddingAsk, batch: Batch, told: Told, *, is_stored: bool
    ) -> Vectors:
        if _numbers(batch) > OFF_THE_LOOP_NUMBERS:
            body = await asyncio.to_thread(_write, ask, batch)
        else:
            body = _write(ask, batch)
        return _vectors(batch, body, told, is_stored=is_stored)

    async def _forward_foreign(self, ask: EmbeddingAsk) -> Forwarded:
        if ask.directives.only_if_cached:
            raise unmet("the model server answers in a form of its own")
        return await self._forward(ask.sending, "another form of reply")

    async def _forward(self, sending: Sending, reason: str) -> Forwarded:
        upstream = sending.target.upstream
        headers = (*sending.account, *sending.passed, ("content-type", "application/json"))
        reply = await upstream.forward("POST", "embeddings", sending.query, headers, sending.body)
        await self._groups.heed(upstream.name, sending.namespace, reply.status, reply.headers)
        return Forwarded(reply, reason)


def _reads_nothing(ask: EmbeddingAsk) -> bool:
    """Return whether everything is to be computed anew. A vector has no age, so any will do."""
    return ask.directives.no_cache or ask.directives.max_age_seconds <= 0


def _writes_nothing(ask: EmbeddingAsk) -> bool:
    return ask.directives.no_store or ask.directives.ttl_seconds <= 0


def _numbers(batch: Batch) -> int:
    return len(batch.items) * batch.items[0].embedding.vector.size


def _write(ask: EmbeddingAsk, batch: Batch) -> bytes:
    return write_embeddings_reply(
        [item.embedding.vector for item in batch.items],
        encoding=ask.request.encoding,
        model=ask.known.served_as,
        tokens=batch.tokens,
    )


def _vectors(batch: Batch, body: bytes, told: Told, *, is_stored: bool) -> Vectors:
    sources = Counter(batch.sources)
    stored = is_stored and bool(sources[Source.ORIGIN])
    return Vectors(body, sources, batch.tokens, told.headers, stored)


def _refusal(refused: Refused) -> Refusal:
    """Hand on what the model server said; say it ourselves where its pace did."""
    if refused.body or refused.headers:
        return Refusal(refused.status, tuple(refused.headers.items()), refused.body)
    seconds = refused.retry_after_seconds or 1.0
    _, body = error_body(RequestError(f"{refused}.", status=_TOO_MANY, code="rate_limited"))
    headers = (("content-type", "application/json"), ("retry-after", str(int(seconds) + 1)))
    return Refusal(_TOO_MANY, headers, body)


def _failure(error: EmbeddingError, upstream: str) -> Exception:
    match error:
        case NoAnswer():
            return UpstreamTimeout(str(error), upstream=upstream)
        case BadReply():
            return UpstreamBroken(str(error), upstream=upstream)
        case _:
            return RequestError(
                "The gateway stopped before the vectors were there. Try again.",
                status=503,
                code="stopping",
            )
