"""Where vectors are made: each text once, whoever asks, and then kept."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stepwell.core.embedding import ContentDigest
from stepwell.core.embedding_events import (
    EmbeddingsComputed,
    EmbeddingSink,
    Source,
)
from stepwell.core.errors import EmbeddingError
from stepwell.embedding.cache.calls import Calls
from stepwell.embedding.cache.canary import Canaries
from stepwell.embedding.cache.job import Began, Given, Job
from stepwell.embedding.cache.memory import Memory, Place
from stepwell.embedding.cache.provider import BadReply, Input, NoVector, Provider, Reply
from stepwell.embedding.cache.replies import Checked, checked_rows, shares
from stepwell.embedding.cache.turns import Turns
from stepwell.embedding.cache.value import Embedding, pack, unpack
from stepwell.embedding.cache.versions import Version
from stepwell.embedding.cache.writer import Writer

_CLOSED = "the embedding cache is closed"


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What a caller wants made."""

    version: Version
    provider: Provider
    began: Began
    share: bool
    """With others who ask for the same; else it is made for this caller alone."""
    keep: bool
    group: object = field(default_factory=object)
    """Stands for the caller."""


class Origin:
    """Makes vectors. For one event loop.

    What several ask for at the same time is made once. Who stops waiting takes nothing away from
    the others; when the last one has left, the call is broken off.
    """

    def __init__(
        self,
        memory: Memory,
        writer: Writer,
        turns: Turns | None,
        canaries: Canaries,
        events: EmbeddingSink,
    ) -> None:
        """Keep what is made in ``memory``, and by ``writer``; without ``turns``, this process
        shares with itself only.
        """
        self._memory = memory
        self._writer = writer
        self._turns = turns
        self._canaries = canaries
        self._events = events
        self._jobs: dict[Place, Job] = {}
        """Until they are written, so that whoever comes late still finds them."""
        self._calls: dict[tuple[Provider, Version], Calls] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._landings: set[asyncio.Future[None]] = set()
        """Of what has been given out and is not on its way to the stores yet."""
        self._is_closed = False

    def join(self, order: Order, wanted: Mapping[ContentDigest, Input]) -> list[Job]:
        """Have ``wanted`` made; return a job for each. They are to be left by `leave`.

        Raises:
            EmbeddingError: The cache is closed.
        """
        if self._is_closed:
            raise EmbeddingError(_CLOSED)
        now = order.provider.pace.clock.monotonic()
        jobs: list[Job] = []
        ours: list[Job] = []
        for digest, given in wanted.items():
            job = self._under_way(order, digest)
            if job is None:
                job = self._new(order, digest, given, now)
                ours.append(job)
            jobs.append(job)
        if ours:
            self._begin(order, ours)
        return jobs

    def made(self, place: Place) -> Embedding | None:
        """Return what has been made for that place, and is on its way to memory and the stores."""
        job = self._jobs.get(place)
        if job is None or not job.value:
            return None
        outcome = job.future.result()
        return outcome.embedding if isinstance(outcome, Given) else None

    async def landed(self, timeout_seconds: float | None = None) -> None:
        """Wait until all that has been made is in the writer's queue, or the time is over."""
        if self._landings:
            await asyncio.wait(self._landings, timeout=timeout_seconds)

    def leave(self, jobs: Iterable[Job], *, break_off: bool) -> None:
        """Wait no longer for ``jobs``.

        What nobody waits for is not sent any more.

        Args:
            jobs: Which.
            break_off: Cancel calls that nobody waits for; else what has been sent is kept when it
                comes.
        """
        calls = set()
        for job in jobs:
            job.waiting -= 1
            if job.waiting == 0 and job.call is not None and not job.future.done():
                calls.add(job.call)
        for call in calls:
            if break_off and not any(job.waiting for job in call.jobs):
                call.task.cancel()
                self._forget(call.jobs)  # Nobody must join them from now on.

    def delete(self, places: Iterable[Place]) -> None:
        """Keep nothing of what is under way to ``places``."""
        for place in places:
            job = self._jobs.pop(place, None)
            if job is not None:
                job.keep = False

    async def aclose(self) -> None:
        """Break off everything; who waits gets an error."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await self._canaries.aclose()
        await asyncio.gather(*(calls.aclose() for calls in [*self._calls.values()]))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for job in self._jobs.values():
            job.fail(EmbeddingError(_CLOSED))
        # Not those that are on their way to the stores.
        await self._release([job for job in self._jobs.values() if not job.value])

    def _under_way(self, order: Order, digest: ContentDigest) -> Job | None:
        job = self._jobs.get((order.version.fingerprint, digest)) if order.share else None
        if job is not None:
            job.waiting += 1
        return job

    def _new(self, order: Order, digest: ContentDigest, given: Input, now: float) -> Job:
        job = Job(
            version=order.version,
            digest=digest,
            input=given,
            began=order.began,
            keep=order.keep,
            group=order.group,
            added_at=now,
            future=asyncio.get_running_loop().create_future(),
        )
        if order.share and order.keep:
            self._jobs[job.place] = job
        return job

    def _begin(self, order: Order, jobs: Sequence[Job]) -> None:
        if self._turns is not None and order.share and order.keep:
            self._spawn(self._take_turns(self._turns, order, jobs))
        else:
            self._compute(order, jobs)

    async def _take_turns(self, turns: Turns, order: Order, jobs: Sequence[Job]) -> None:
        """Compute what no other process computes, and find what others have computed."""
        by_digest = {job.digest: job for job in jobs}
        async for turn in turns.take(order.version, list(by_digest)):
            found = [by_digest[digest] for digest in turn.found]
            for job in found:
                embedding = turn.found[job.digest].embedding
                self._memory.put({job.place: embedding}, job.began.memory)
                job.land(Given(embedding, Source.SHARED))
            self._forget(found)
            ours = [by_digest[digest] for digest in turn.ours]
            for job in ours:
                job.is_claimed = turn.claimed
            self._compute(order, ours)

    def _compute(self, order: Order, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        asked = (order.provider, order.version)
        calls = self._calls.get(asked)
        if calls is None:
            landed = partial(self._landed, order.version, order.provider)
            calls = self._calls[asked] = Calls(
                order.provider,
                order.version,
                landed,
                self._settled,
                partial(self._calls.pop, asked),
            )
        calls.add(jobs)

    async def _landed(
        self, version: Version, provider: Provider, jobs: Sequence[Job], reply: Reply, took: float
    ) -> None:
        kind, tokens = version.kind, max(0, reply.tokens or 0)
        unit = kind.normalization == "unit"
        rows = checked_rows(reply, len(jobs), width=kind.dimensions, unit=unit)
        self._events.emit(EmbeddingsComputed(kind.model, len(jobs), tokens, took))
        parts = shares(tokens, [job.input for job in jobs])
        made: list[Job] = []
        for job, row, part in zip(jobs, rows, parts, strict=True):
            embedding = self._made(job, row, part)
            if embedding is not None:
                job.land(Given(embedding, Source.ORIGIN))
                made.append(job)
        landing = asyncio.get_running_loop().create_future()
        self._landings.add(landing)
        try:
            await self._settled([job for job in jobs if not job.value])
            await self._canaries.look(version, provider)
            await self._keep(version, made)
        finally:
            self._landings.discard(landing)
            landing.set_result(None)

    def _made(self, job: Job, row: Checked, tokens: int) -> Embedding | None:
        """Return what is given out: rounded, and so the same bits that a hit will have."""
        if isinstance(row, NoVector):
            job.land(row)
            return None
        if isinstance(row, BadReply):
            job.fail(row)
            return None
        version = job.version
        if not version.fits(row.size):
            version.drift(math.inf, self._events)
        value = pack(row, version.kind, tokens)
        embedding = unpack(value, version.kind)
        if embedding is not None:
            job.value = value
        return embedding

    async def _keep(self, version: Version, jobs: Sequence[Job]) -> None:
        kept = [job for job in jobs if job.keep and not version.drifted]
        for job in kept:
            outcome = job.future.result()
            if isinstance(outcome, Given):
                self._memory.put({job.place: outcome.embedding}, job.began.memory)
        await self._settled([job for job in jobs if not job.keep or version.drifted])
        await self._writer.add(kept, self._release, self._settled)

    async def _settled(self, jobs: Sequence[Job]) -> None:
        """Nothing more will be done for ``jobs``."""
        self._memory.drop(job.place for job in jobs if not job.keep)
        self._forget(jobs)
        await self._release(jobs)

    def _forget(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if self._jobs.get(job.place) is job:
                del self._jobs[job.place]

    async def _release(self, jobs: Sequence[Job]) -> None:
        claimed: defaultdict[Version, list[ContentDigest]] = defaultdict(list)
        for job in jobs:
            if job.is_claimed:
                job.is_claimed = False
                claimed[job.version].append(job.digest)
        if self._turns is not None:
            for version, digests in claimed.items():
                await self._turns.release(version, digests)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
