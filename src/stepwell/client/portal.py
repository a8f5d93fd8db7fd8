"""An event loop in a thread, so that synchronous programs can use what is async."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class Portal:
    """Runs coroutines for callers in any thread.

    The thread is a daemon: a program that forgets to close ends all the same.
    """

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="stepwell-portal", daemon=True
        )
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run ``coroutine`` on the loop and return its result. Costs two thread switches."""
        return self.start(coroutine).result()

    def start(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run ``coroutine`` on the loop; do not wait for it. Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._loop.is_closed()

    def close(self) -> None:
        """Stop the loop and end the thread. May be called twice."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
