"""The time between the signal to stop and stopping, in which nobody is turned away."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Drain:
    """Lets those who send requests here hear that they should not, before the server stops.

    Whoever spreads requests over several gateways learns late that one of them stops: a request it
    sends meanwhile must still be answered. For one event loop.
    """

    def __init__(self, seconds: float) -> None:
        """Wait for the signal when `awaited` says so.

        Args:
            seconds: How long requests are still taken; 0: the server stops at once.
        """
        self.is_under_way = False
        self._seconds = seconds

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Hear SIGTERM in the server's place, which hears of it when the time is over.

        In the main thread, when the server has its handler. SIGINT stays the server's: it stops at
        once, also during a drain.
        """
        stop = signal.getsignal(signal.SIGTERM)
        if self._seconds == 0 or not callable(stop):
            yield
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._begin, loop, stop)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, stop)

    def skip(self) -> None:
        """Have the server stop now, in order. There is nobody left to wait for."""
        self._seconds = 0
        signal.raise_signal(signal.SIGTERM)

    def _begin(self, loop: asyncio.AbstractEventLoop, stop: Callable[[int, None], object]) -> None:
        if not self.is_under_way:  # A service manager may signal a worker, as its parent does.
            self.is_under_way = True
            loop.call_later(self._seconds, stop, signal.SIGTERM, None)
