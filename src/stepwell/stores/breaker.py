"""A circuit breaker: a server that fails is not asked, until it is seen to work again.

While the circuit is open, calls fail at once; whether the server works is tried in the background,
by one probe at a time (what others call half-open), with pauses that grow. So nobody waits for a
server that is gone, and a server that comes back is not stormed.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from stepwell.core.errors import ConfigError, StoreUnavailable

MIN_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 2.0

_MAX_DOUBLINGS = 10
"""More than enough to reach the longest pause."""

SETTLED_SECONDS = 5.0
"""How long a circuit must have been closed for its next failure to be a new one. A server that
works for a moment and fails again is probed less and less often."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The server may be asked."""


@dataclass(frozen=True, slots=True)
class Open:
    """The server is not asked."""

    reason: str
    """The last that was seen of it."""


State = Closed | Open


class Timing(Protocol):
    """Time as a breaker needs it."""

    def time(self) -> float:
        """Return seconds that never go back."""
        ...

    async def pause(self, seconds: float) -> None:
        """Return after that time."""
        ...


class LoopTiming:
    """The event loop's time."""

    def __init__(self) -> None:
        """Take the running loop's."""
        self.time = asyncio.get_running_loop().time

    async def pause(self, seconds: float) -> None:
        """Return after that time."""
        await asyncio.sleep(seconds)


class Breaker:
    """Whether one server may be asked. One event loop; looking at `state` costs nothing.

    It knows nothing of servers: its owner trips it when one fails, and says how to probe it.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        *,
        on_change: Callable[[State], None],
        timing: Timing | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """Be open, and do nothing until `start`.

        Args:
            probe: Returns if the server works; else raises `StoreUnavailable` or `ConfigError`.
            on_change: Called each time the circuit opens or closes; not for what is found at
                the start, if that is good. Must not raise.
            timing: Of the running loop, unless it is given.
            draw: Returns a number from 0 to 1, to spread probes of many clients.
        """
        self.state: State = Open("it was not reached yet")
        self._probe = probe
        self._on_change = on_change
        self._timing = timing or LoopTiming()
        self._draw = draw
        self._probing: asyncio.Task[None] | None = None
        self._failures = 0
        self._closed_at = -math.inf
        self._is_over = False

    async def start(self) -> None:
        """Probe once, and close the circuit or go on in the background.

        Raises:
            ConfigError: As the probe does. Then nothing goes on in the background.
        """
        try:
            await self._probe()
        except StoreUnavailable as error:
            self._failures = 1
            self.trip(str(error))
        else:
            self._close()

    def trip(self, reason: str) -> None:
        """Open the circuit, and begin to probe; at once if the failure is a new one."""
        if self._probing is not None or self._is_over:
            return
        if isinstance(self.state, Closed) and self._was_settled():
            self._failures = 0
        self.state = Open(reason)
        self._probing = asyncio.create_task(self._probe_until_closed())
        self._on_change(self.state)

    async def aclose(self) -> None:
        """Stay open for good, and end a probe that is under way. May be called twice."""
        self._is_over = True
        self.state = Open("it was closed here")
        probing, self._probing = self._probing, None
        if probing is not None:
            probing.cancel()
            await asyncio.wait([probing])

    def _was_settled(self) -> bool:
        return self._timing.time() - self._closed_at >= SETTLED_SECONDS

    async def _probe_until_closed(self) -> None:
        while True:
            await self._timing.pause(self._pause_seconds())
            try:
                await self._probe()
            except (StoreUnavailable, ConfigError) as error:
                self._failures += 1
                self.state = Open(str(error))
            else:
                break
        self._failures += 1  # counts only if it fails again before it has settled
        self._probing = None
        self._close()
        self._on_change(self.state)

    def _close(self) -> None:
        if not self._is_over:
            self._closed_at = self._timing.time()
            self.state = Closed()

    def _pause_seconds(self) -> float:
        """Return none before the first probe, then 0.1 s to 2 s, of which up to half is spared."""
        if self._failures == 0:
            return 0.0
        doublings = min(self._failures - 1, _MAX_DOUBLINGS)
        longest: float = min(MIN_PAUSE_SECONDS * 2**doublings, MAX_PAUSE_SECONDS)
        return longest * (0.5 + self._draw() / 2)
