"""A thread that does blocking work for one event loop, with a bounded queue in front of it."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from stepwell.core.clock import Clock
from stepwell.core.errors import StoreError, StoreUnavailable
from stepwell.core.events import Event
from stepwell.core.ports import EventSink

C = TypeVar("C")
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Job(Generic[C]):
    """One call, on its way to the thread and back."""

    work: Callable[[C], object]
    future: asyncio.Future[Any]
    size_bytes: int
    durable: bool
    """Whether it must outlast a power cut once it is done."""
    patient: bool
    """Whether it may wait for others, to share what a batch costs."""
    result: object = None
    error: StoreError | None = None


class Handler(Protocol[C]):
    """What a thread does. All methods are called on that thread, and do not raise."""

    def handle(self, jobs: Sequence[Job[C]]) -> None:
        """Do the work of ``jobs`` and note result or error in each."""
        ...

    def idle(self) -> None:
        """Do what must be done now and then."""
        ...

    def take_events(self) -> Sequence[Event]:
        """Return what happened since the last call."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may wait for a thread, and how much of it is handled at once."""

    jobs: int
    size_bytes: int
    batch_jobs: int
    batch_bytes: int
    overflow: type[StoreError]
    """What a call beyond the bounds raises."""


class Lane(Generic[C]):
    """Calls from one event loop to one daemon thread, handled in order and in batches.

    Whatever waits when the thread is free is one batch, so that many calls share what it costs. A
    single call is handled at once, or, if it is patient, with those that come within
    ``linger_seconds``. Make it and call it on the loop.
    """

    def __init__(
        self,
        name: str,
        handler: Handler[C],
        *,
        bounds: Bounds,
        clock: Clock,
        events: EventSink,
        poll_seconds: float,
        linger_seconds: float = 0.0,
    ) -> None:
        self._name = name
        self._handler = handler
        self._bounds = bounds
        self._clock = clock
        self._events = events
        self._poll_seconds = poll_seconds
        self._linger_seconds = linger_seconds
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Job[C] | None] = queue.SimpleQueue()
        self._waiting_jobs = 0
        self._waiting_bytes = 0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def call(
        self,
        work: Callable[[C], T],
        *,
        timeout_seconds: float,
        size_bytes: int = 0,
        durable: bool = False,
        patient: bool = False,
    ) -> T:
        """Have ``work`` done on the thread and return its result.

        Raises:
            StoreUnavailable: Closed, or not done in time; it may still be done later.
            StoreError: As ``work`` raises it, or the bound's overflow.
        """
        if self._closed:
            raise StoreUnavailable(f"{self._name} is closed")
        if (
            self._waiting_jobs >= self._bounds.jobs
            or self._waiting_bytes + size_bytes > self._bounds.size_bytes
        ):
            raise self._bounds.overflow(
                f"{self._name}: {self._waiting_jobs} calls of {self._waiting_bytes} bytes wait"
            )
        future = self._loop.create_future()
        self._waiting_jobs += 1
        self._waiting_bytes += size_bytes
        self._queue.put(Job(work, future, size_bytes, durable, patient))
        try:
            async with asyncio.timeout(timeout_seconds):
                return cast("T", await future)
        except TimeoutError:
            raise StoreUnavailable(f"{self._name}: no answer in {timeout_seconds} s") from None

    async def aclose(self, timeout_seconds: float) -> None:
        """Finish what waits and end the thread; a thread that hangs is left behind."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join, timeout_seconds)

    def _serve(self) -> None:
        last_idle = self._clock.monotonic()
        serving = True
        while serving:
            jobs, serving = self._next_batch()
            if jobs:
                self._handler.handle(jobs)
            if not serving:
                self._handler.close()
            elif not jobs or self._clock.monotonic() - last_idle >= self._poll_seconds:
                self._handler.idle()
                last_idle = self._clock.monotonic()
            self._answer(jobs)

    def _next_batch(self) -> tuple[list[Job[C]], bool]:
        """Return the jobs that wait, none after a while without any, and whether to go on."""
        jobs: list[Job[C]] = []
        size_bytes = 0
        with suppress(queue.Empty):
            job = self._queue.get(timeout=self._poll_seconds)
            if job is not None and job.patient and self._linger_seconds:
                # Asleep, and not woken by each job that comes: on its way to the interpreter's
                # lock each waking would cost the loop more than the job does.
                time.sleep(self._linger_seconds)
            while job is not None:
                jobs.append(job)
                size_bytes += job.size_bytes
                if len(jobs) == self._bounds.batch_jobs or size_bytes >= self._bounds.batch_bytes:
                    return jobs, True
                job = self._queue.get_nowait()
            return jobs, False
        return jobs, True

    def _answer(self, jobs: list[Job[C]]) -> None:
        events = self._handler.take_events()
        if jobs or events:
            # A loop that is closed has nobody left who waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, jobs, events)

    def _deliver(self, jobs: list[Job[C]], events: Sequence[Event]) -> None:
        for event in events:
            self._events.emit(event)
        for job in jobs:
            self._waiting_jobs -= 1
            self._waiting_bytes -= job.size_bytes
            if job.future.done():
                continue
            if job.error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(job.error)
