"""Vectors on their way into the stores: into the full one first."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from itertools import islice, takewhile
from typing import Final

from stepwell.core.embedding import ContentDigest, Deletions
from stepwell.core.embedding_events import EmbeddingSink, EmbeddingsNotKept
from stepwell.core.errors import StoreError, StoreFull, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.embedding.cache.job import Job
from stepwell.embedding.cache.pace import Pause
from stepwell.embedding.cache.registration import Registration
from stepwell.embedding.cache.tiers import SLICE, Stores, Tiers
from stepwell.embedding.cache.versions import Version

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2.0
_GRACE_SECONDS: Final = 2.0

Told = Callable[[Sequence[Job]], Awaitable[None]]
"""Hears of jobs."""


class Writer:
    """A bounded queue, and one task that empties it. For one event loop.

    While the full store works, whoever brings more than the queue holds waits. While it fails,
    what is in the queue waits for it to come back, and the rest is dropped and counted: it will be
    computed again. Nothing gets into a cache that the full store has not taken.
    """

    def __init__(
        self,
        stores: Stores,
        tiers: Tiers,
        registration: Registration,
        events: EmbeddingSink,
        *,
        max_bytes: int,
        keep_texts: bool,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Start with nothing to write.

        Args:
            stores: Where to.
            tiers: Fills the caches.
            registration: Of the versions.
            events: Hears of what fails.
            max_bytes: Of the queue: values and texts.
            keep_texts: Keep texts along with their vectors.
            pause: Waits.
        """
        self._stores = stores
        self._tiers = tiers
        self._registration = registration
        self._events = events
        self._max_bytes = max_bytes
        self._keep_texts = keep_texts
        self._pause = pause
        self._queue: deque[Job] = deque()
        self._bytes = 0
        self._is_failing = False
        self._moved = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._queue)

    async def add(self, jobs: Sequence[Job], stuck: Told, settled: Told) -> None:
        """Write ``jobs``; waits for room in the queue.

        Args:
            jobs: All of one version.
            stuck: Hears of those that a failing store keeps from being written for now.
            settled: Hears of those that nothing more will be done for.
        """
        if self._stores.full is None and not self._stores.caches:
            await settled(jobs)
            return
        crowded: list[Job] = []
        for job in jobs:
            while not self._fits(job) and not self._is_failing:
                await self._moved.wait()
            if self._fits(job):
                self._queue.append(job)
                self._bytes += job.size_bytes
            else:
                crowded.append(job)
            self._start(stuck, settled)
        if crowded:
            self._events.emit(EmbeddingsNotKept(len(crowded), "crowded"))
            await settled(crowded)

    async def flush(self, timeout_seconds: float | None = None) -> int:
        """Wait until all is written, or the time is over; return how many still wait."""
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=timeout_seconds)
        return len(self._queue)

    async def aclose(self) -> None:
        """Write what can be written in a short time, drop the rest."""
        if await self.flush(_GRACE_SECONDS):
            self._events.emit(EmbeddingsNotKept(len(self._queue), "crowded"))
            self._queue.clear()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    def _fits(self, job: Job) -> bool:
        return not self._queue or self._bytes + job.size_bytes <= self._max_bytes

    def _start(self, stuck: Told, settled: Told) -> None:
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(stuck, settled))

    async def _work(self, stuck: Told, settled: Told) -> None:
        pause_seconds = _FIRST_PAUSE_SECONDS
        while self._queue:
            batch = list(self._next())
            try:
                await self._write(batch)
            except (StoreUnavailable, StoreFull) as error:
                self._fail(error, batch[0].version)
                await stuck(batch)
                await self._pause(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
                continue
            except StoreError as error:  # It would not go in later either.
                self._fail(error, batch[0].version)
                self._events.emit(EmbeddingsNotKept(len(batch), "refused"))
            pause_seconds = _FIRST_PAUSE_SECONDS
            self._is_failing = False
            for job in batch:
                self._queue.popleft()
                self._bytes -= job.size_bytes
            self._wake()
            await settled(batch)

    def _next(self) -> Iterator[Job]:
        version = self._queue[0].version
        return takewhile(lambda job: job.version is version, islice(self._queue, SLICE))

    async def _write(self, batch: Sequence[Job]) -> None:
        version = batch[0].version
        kept = [job for job in batch if job.keep and not version.drifted]
        if not kept:
            return
        if not await self._registration.has_room(version):
            self._events.emit(EmbeddingsNotKept(len(kept), "versions"))
            return
        # The oldest of their numbers: it refuses more than it would have to, never less.
        deletions = Deletions(min(job.began.full for job in kept))
        refused = await self._put(version, kept, deletions)
        if refused:
            for job in kept:
                job.keep = job.digest not in refused
            # Unless they were deleted, another has retired the version.
            version.is_registered = False
        plain = [job.item(with_text=False) for job in kept if job.keep]
        if plain:
            await self._tiers.fill(version, self._stores.caches, plain, deletions)

    async def _put(
        self, version: Version, jobs: Sequence[Job], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """Put ``jobs`` into the full store, if there is one; return what it refused."""
        if self._stores.full is None:
            return ()
        items = [job.item(with_text=self._keep_texts) for job in jobs]
        return await self._stores.full.put(version.name, items, deletions)

    def _fail(self, error: StoreError, version: Version) -> None:
        version.is_registered = False  # Another may have retired it.
        tier = "none" if self._stores.full is None else self._stores.full.tier
        self._events.emit(Degraded(f"embeddings.{tier}", str(error)))
        self._is_failing = True
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
