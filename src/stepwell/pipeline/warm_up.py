"""Warm-up: replicas read system prompts before a request needs them, and again when they forgot.

A prompt is sent as a request with this beginning would send it, asking for one token. One at a
time, and only to a replica that has nothing to do as far as this process knows. What fails is tried
again later; nobody waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from stepwell.core.clock import Clock
from stepwell.core.entry import Usage
from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import Degraded, WarmedUp
from stepwell.core.ports import Call, EventSink
from stepwell.core.steering import Hold, ReplicaReport, SupportsReplicas
from stepwell.pipeline.short_reply import Refused, usage_of

LOOK_SECONDS = 1.0
"""How often it is looked whether something is due."""

FIRST_RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 60.0

_READY = "ready"
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class StandingPrompt:
    """The beginning of many prompts, to be held by all replicas of an upstream."""

    name: str
    """Where the settings have it; the prompt itself is not for logs."""
    upstream: str
    call: Call
    every_seconds: float = 0.0
    """After so long it is read again, lest it be evicted; 0: only when it may have been lost."""
    hold: Hold | None = None
    """What an engine of ours is to do with it."""

    @property
    def pause_seconds(self) -> float:
        """After how long it is read again: before it may be evicted, in any case."""
        pauses = [self.every_seconds or _NEVER]
        if self.hold is not None:
            pauses.append(self.hold.ttl_seconds / 2 or _NEVER)
        return min(pauses)


async def read_once(upstream: SupportsReplicas, replica: str, prompt: StandingPrompt) -> Usage:
    """Have a replica read a prompt; return what it says that cost, all 0 where it does not say.

    Raises:
        UpstreamError: It could not, or not wholly.
        Refused: It answered with an error.
        RequestError: HTTP cannot carry the call.
    """
    if prompt.hold is None:
        reply = await upstream.send_to(replica, prompt.call)
    else:
        reply = await upstream.hold_at(replica, prompt.call, prompt.hold)
    return await usage_of(reply, replica)


@dataclass(slots=True)
class _Place:
    """A prompt at a replica."""

    due_at: float = 0.0
    losses: int = -1
    """Of the replica, when it was last read; -1: never."""
    retry_seconds: float = 0.0

    def is_due(self, report: ReplicaReport, now: float) -> bool:
        if self.retry_seconds:
            return now >= self.due_at
        return report.losses != self.losses or now >= self.due_at

    def read(self, losses: int, next_at: float) -> None:
        self.losses, self.due_at, self.retry_seconds = losses, next_at, 0.0

    def failed(self, now: float) -> None:
        self.retry_seconds = min(
            2 * self.retry_seconds or FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS
        )
        self.due_at = now + self.retry_seconds


class WarmUp:
    """Keeps prompts warm. One event loop; `look` is not to be called twice at a time."""

    def __init__(
        self,
        prompts: Sequence[StandingPrompt],
        upstreams: Mapping[str, SupportsReplicas],
        *,
        hear: Callable[[], Awaitable[object]],
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Send nothing yet.

        Args:
            prompts: What is to be held.
            upstreams: By name; at least those of the prompts.
            hear: Hears which replicas operators have told to drain. Must not raise.
            clock: The time.
            events: Hears of each prompt that was read, and of each failure.
        """
        self._prompts = prompts
        self._upstreams = upstreams
        self._hear = hear
        self._clock = clock
        self._events = events
        self._places: dict[tuple[str, str], _Place] = {}

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Send what is due where it can be read now, one after the other."""
        await self._hear()
        while (found := self._due()) is not None:
            await self._warm(*found)

    def _due(self) -> tuple[StandingPrompt, ReplicaReport] | None:
        now = self._clock.monotonic()
        for prompt in self._prompts:
            for report in self._upstreams[prompt.upstream].reports():
                is_free = report.condition == _READY and not report.load
                if is_free and self._place(prompt, report).is_due(report, now):
                    return prompt, report
        return None

    def _place(self, prompt: StandingPrompt, report: ReplicaReport) -> _Place:
        return self._places.setdefault((prompt.name, report.replica), _Place())

    async def _warm(self, prompt: StandingPrompt, report: ReplicaReport) -> None:
        started = self._clock.monotonic()
        place = self._place(prompt, report)
        try:
            upstream = self._upstreams[prompt.upstream]
            usage = await read_once(upstream, report.replica, prompt)
        except (UpstreamError, RequestError, Refused) as error:
            place.failed(self._clock.monotonic())
            self._events.emit(Degraded(f"warm-up.{prompt.upstream}", f"{prompt.name}: {error}"))
            return
        now = self._clock.monotonic()
        place.read(report.losses, now + prompt.pause_seconds)
        self._events.emit(
            WarmedUp(prompt.upstream, report.replica, prompt.name, now - started, usage)
        )
