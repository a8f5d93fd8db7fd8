"""How fast a provider may be asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from stepwell.core.clock import Clock, SystemClock
from stepwell.core.errors import ConfigError
from stepwell.policy.allowance import MINUTE_SECONDS

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a provider takes, and how long it is asked again."""

    max_texts: int = 256
    """In a call."""
    max_bytes: int = 1 << 20
    """Of the texts of a call, in UTF-8; a longer text goes alone. Token ids count 4."""
    max_calls: int = 8
    """Under way at a time."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_retries: int = 2
    """Of a call that was refused for now (408, 429, 5xx), or got no answer."""
    deadline_seconds: float = 60.0
    """A text that has waited so long is not tried again."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ConfigError: A limit lets nothing through.
        """
        for name in ("max_texts", "max_bytes", "max_calls"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 1 or more.")
        for name in ("requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value}; allowed: more than 0, or none.")
        if self.max_retries < 0 or not self.deadline_seconds > 0:
            raise ConfigError("max_retries must be 0 or more, deadline_seconds more than 0.")


class Bucket:
    """A token bucket that lends: whoever takes too much waits until it is paid back.

    So the order is the order of taking, and nobody starves. Not thread-safe.
    """

    __slots__ = ("_at", "_level", "_per_second", "_size")

    def __init__(self, per_minute: float) -> None:
        """Start full: a minute's worth."""
        self._per_second = per_minute / MINUTE_SECONDS
        self._size = self._level = per_minute
        self._at: float | None = None

    def take(self, amount: float, now: float) -> float:
        """Take ``amount``; return the seconds to wait before it may be used.

        A negative amount gives back.
        """
        elapsed = 0.0 if self._at is None else now - self._at
        self._at = now
        self._level = min(self._size, self._level + elapsed * self._per_second) - amount
        return max(0.0, -self._level / self._per_second)


class Pace:
    """Keeps the calls to one provider within its limits. For one event loop."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        clock: Clock | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Start with all that a minute allows."""
        self.limits = limits or Limits()
        self.clock: Clock = clock or SystemClock()
        self.pause = pause
        self._slots = asyncio.Semaphore(self.limits.max_calls)
        self._requests = _bucket(self.limits.requests_per_minute)
        self._tokens = _bucket(self.limits.tokens_per_minute)
        self._not_before = 0.0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for one of the calls that may be under way at a time; hold it."""
        async with self._slots:
            yield

    def book(self, tokens: int) -> float:
        """Book a call of about so many tokens; return the seconds to wait before it is made."""
        now = self.clock.monotonic()
        waits = [self._not_before - now]
        if self._requests is not None:
            waits.append(self._requests.take(1.0, now))
        if self._tokens is not None:
            waits.append(self._tokens.take(tokens, now))
        return max(0.0, *waits)

    def give_back(self, tokens: int, *, call: bool = False) -> None:
        """Give back tokens that were not needed, and the call itself if it was not made.

        Args:
            tokens: Negative if it took more than was booked.
            call: Whether it was not made.
        """
        now = self.clock.monotonic()
        if self._tokens is not None:
            self._tokens.take(-tokens, now)
        if self._requests is not None and call:
            self._requests.take(-1.0, now)

    def hold(self, seconds: float) -> None:
        """Make no call for so long, but at most a minute: the provider has said so.

        After longer it says so again, if it still means it.
        """
        seconds = min(seconds, MINUTE_SECONDS)
        self._not_before = max(self._not_before, self.clock.monotonic() + seconds)


def _bucket(per_minute: float | None) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute)
