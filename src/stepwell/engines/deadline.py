"""A moment that is moved often and passes seldom, on a timer that is seldom set."""

import asyncio
import math
from collections.abc import Callable

_RESOLUTION_SECONDS = 0.001
"""Of uvloop's clock: a timer may go off that much early."""


class Deadline:
    """Calls back when a moment passes, unless it is moved or cleared before.

    Moving it to a later moment costs no timer: the one that is set goes off too early, sees that
    and is set again. A stream can so move its deadline at each event. For one event loop.
    """

    __slots__ = ("_loop", "_moment", "_on_passed", "_timer", "_timer_moment")

    def __init__(self, on_passed: Callable[[], None]) -> None:
        """Start without a moment. Needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._on_passed = on_passed
        self._moment = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_moment = math.inf

    def set(self, seconds: float) -> None:
        """Move the moment to ``seconds`` from now."""
        self._moment = moment = self._loop.time() + seconds
        if moment < self._timer_moment:
            self._start_timer()

    def clear(self) -> None:
        """Have no moment any more."""
        self._moment = math.inf

    def close(self) -> None:
        """Have no timer either, so that nothing refers to this object any more."""
        self._moment = self._timer_moment = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_moment = self._moment
        self._timer = self._loop.call_at(self._moment, self._look)

    def _look(self) -> None:
        self._timer = None
        self._timer_moment = math.inf
        if self._moment > self._loop.time() + _RESOLUTION_SECONDS:
            if self._moment < math.inf:
                self._start_timer()
            return
        self._moment = math.inf
        self._on_passed()
