"""Texts joined to calls of a provider's size, at its pace, and again where that may help."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final

from stepwell.core.errors import EmbeddingError, UpstreamError
from stepwell.embedding.cache.job import Job, UnderWay
from stepwell.embedding.cache.provider import (
    BadReply,
    Input,
    NoAnswer,
    Provider,
    Refused,
    Reply,
)
from stepwell.embedding.cache.versions import Version

_FIRST_PAUSE_SECONDS: Final = 0.25
_BYTES_PER_TOKEN: Final = 4
"""For the pace only; the provider's own count corrects it."""

Landed = Callable[[Sequence[Job], Reply, float], Awaitable[None]]
"""Takes a reply, and the seconds it took.

Raises:
    BadReply: It is not what was asked for.
"""

Failed = Callable[[Sequence[Job]], Awaitable[None]]
"""Hears of jobs that have failed, or that nobody waits for."""

Idle = Callable[[], object]
"""Hears that there is nothing more to do."""


class Calls:
    """What one provider is to embed for one kind. For one event loop.

    While calls are under way, texts gather, and the next call takes as many as it may; so calls are
    the larger the more there is to do, and nothing waits without need.
    """

    def __init__(
        self, provider: Provider, version: Version, landed: Landed, failed: Failed, idle: Idle
    ) -> None:
        """Ask ``provider``, for vectors of ``version``."""
        self._provider = provider
        self._pace = provider.pace
        self._version = version
        self._landed = landed
        self._failed = failed
        self._idle = idle
        self._queue: deque[Job] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._calling = 0
        """Workers that are making a call; the others wait for a slot."""
        self._is_starting = False

    def add(self, jobs: Sequence[Job]) -> None:
        """Embed ``jobs``."""
        self._queue.extend(jobs)
        if not self._is_starting:
            # Whatever else is ready to run may have more for the same call.
            self._is_starting = True
            asyncio.get_running_loop().call_soon(self._start)

    async def aclose(self) -> None:
        """Break off; who waits gets an error."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        jobs = list(self._queue)
        self._queue.clear()
        await self._fail(jobs, EmbeddingError("the embedding cache is closed"))

    def _start(self) -> None:
        self._is_starting = False
        limits = self._pace.limits
        calls = -(-len(self._queue) // limits.max_texts)
        ready = len(self._workers) - self._calling
        for _ in range(min(limits.max_calls - len(self._workers), calls - ready)):
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._end)

    def _end(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        if not (self._queue or self._workers or self._is_starting):
            self._idle()

    async def _work(self) -> None:
        while self._queue:
            async with self._pace.slot():
                jobs, abandoned = self._take()
                await self._failed(abandoned)
                if jobs:
                    self._calling += 1
                    try:
                        await self._run(jobs)
                    finally:
                        self._calling -= 1

    def _take(self) -> tuple[list[Job], list[Job]]:
        """Take what makes the next call; and what nobody waits for any more."""
        limits = self._pace.limits
        jobs: list[Job] = []
        abandoned: list[Job] = []
        num_bytes = 0
        while self._queue and len(jobs) < limits.max_texts:
            job = self._queue[0]
            if not job.waiting:
                abandoned.append(self._queue.popleft())
                continue
            num_bytes += _size(self._given(job))
            if jobs and not (num_bytes <= limits.max_bytes and _go_together(jobs[0], job)):
                break
            jobs.append(self._queue.popleft())
        return jobs, abandoned

    async def _run(self, jobs: Sequence[Job]) -> None:
        """Make a call that is broken off when nobody waits for it any more."""
        task = asyncio.create_task(self._settle(jobs))
        for job in jobs:
            job.call = UnderWay(jobs, task)
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():  # This worker is being cancelled.
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await self._fail(jobs, EmbeddingError("the embedding cache is closed"))
        if task.cancelled():
            await self._failed(jobs)
        else:
            task.result()

    async def _settle(self, jobs: Sequence[Job]) -> None:
        try:
            await self._try(jobs)
        except (BadReply, Refused) as error:
            if not self._is_for_one(jobs) and not _may_pass(error):
                self._send_apart(jobs)
                return
            await self._fail(jobs, error)
        except Exception as error:  # noqa: BLE001  (a provider of the program's own may raise any)
            await self._fail(jobs, error)

    async def _try(self, jobs: Sequence[Job]) -> None:
        """Ask until there is an answer, or no point in asking again."""
        attempt = 0
        while True:
            try:
                await self._ask(jobs)
            except (Refused, NoAnswer, UpstreamError) as error:
                seconds = self._again_after(error, attempt)
                if seconds is None or seconds >= self._seconds_left(jobs):
                    raise
                attempt += 1
                await self._pace.pause(seconds)
            else:
                return

    async def _ask(self, jobs: Sequence[Job]) -> None:
        inputs = [self._given(job) for job in jobs]
        booked = sum(map(_size, inputs)) // _BYTES_PER_TOKEN
        wait_seconds = self._pace.book(booked)
        left_seconds = self._seconds_left(jobs)
        if wait_seconds >= left_seconds:
            self._pace.give_back(booked, call=True)
            raise Refused(
                f"the provider's limits leave no room within {left_seconds:.0f} s",
                status=HTTPStatus.TOO_MANY_REQUESTS,
                retry_after_seconds=wait_seconds,
            )
        if wait_seconds:
            await self._pace.pause(wait_seconds)
        started = self._pace.clock.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left_seconds - wait_seconds)):
                reply = await self._provider.embed(inputs)
        except TimeoutError:
            raise NoAnswer("the provider has not answered within the deadline") from None
        if reply.tokens is not None:
            self._pace.give_back(booked - reply.tokens)
        await self._landed(jobs, reply, self._pace.clock.monotonic() - started)

    def _again_after(self, error: Exception, attempt: int) -> float | None:
        """Return the seconds after which it may help to ask again."""
        limits = self._pace.limits
        if attempt >= limits.max_retries or not _may_pass(error):
            return None
        told = error.retry_after_seconds if isinstance(error, Refused) else None
        if told is not None:
            self._pace.hold(told)
            return told
        # Up to twice as long each time, and never all at once (full jitter).
        return _FIRST_PAUSE_SECONDS * float(2**attempt) * (1 + random.random())  # noqa: S311

    def _seconds_left(self, jobs: Sequence[Job]) -> float:
        waited = self._pace.clock.monotonic() - jobs[0].added_at
        return self._pace.limits.deadline_seconds - waited

    def _given(self, job: Job) -> Input:
        prefix = self._version.kind.prefix
        return prefix + job.input if isinstance(job.input, str) else job.input

    def _is_for_one(self, jobs: Sequence[Job]) -> bool:
        return all(job.group is jobs[0].group for job in jobs)

    def _send_apart(self, jobs: Sequence[Job]) -> None:
        """Ask once more for each caller alone: one's refusal must not be another's."""
        for job in jobs:
            job.alone = True
            job.call = None
        self.add(jobs)

    async def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        for job in jobs:
            job.fail(error)
        await self._failed(jobs)


def _size(given: Input) -> int:
    return len(given.encode()) if isinstance(given, str) else _BYTES_PER_TOKEN * len(given)


def _go_together(first: Job, other: Job) -> bool:
    if isinstance(first.input, str) != isinstance(other.input, str):
        return False
    return first.group is other.group or not (first.alone or other.alone)


def _may_pass(error: Exception) -> bool:
    """Return whether asking again may help."""
    return error.may_pass if isinstance(error, Refused) else not isinstance(error, BadReply)
