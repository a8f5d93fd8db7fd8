"""Which blocks of a request are kept, found out by a thread: the disk may be slow, or gone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Full, Queue
from threading import Event, Thread

from stepwell.core.clock import Clock
from stepwell.core.kv import BlockId
from stepwell.vllm.asked import Asked

_MOMENT_SECONDS = 0.002
"""A local disk has answered by then, so that most requests are not put off."""

_MAX_WAITING = 1024


@dataclass(frozen=True, slots=True)
class Found:
    """What is kept of a request's tokens."""

    scope_digest: bytes | None
    """``None``: nothing is to be loaded or saved for this request."""
    blocks: tuple[BlockId, ...]
    """Those that are kept, from the first one on without a gap."""


NOTHING = Found(None, ())


@dataclass(slots=True)
class _Lookup:
    asked: Asked
    deadline: float
    is_done: Event = field(default_factory=Event)
    found: Found = NOTHING


class Lookups:
    """Asks what is kept, for each request once. All methods on one thread."""

    def __init__(
        self, search: Callable[[Asked], Found], *, timeout_seconds: float, clock: Clock
    ) -> None:
        """Start the thread that searches.

        Args:
            search: May block. What it raises counts as nothing found.
            timeout_seconds: After this time nothing counts as found.
            clock: Tells when that is.
        """
        self._search = search
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._lookups: dict[str, _Lookup] = {}
        self._queue: Queue[_Lookup | None] = Queue(_MAX_WAITING)
        self._thread = Thread(target=self._run, name="stepwell-lookups", daemon=True)
        self._thread.start()
        self.failures = 0
        """How many found nothing because of an error or because the time was over."""

    def find(self, asked: Asked) -> Found | None:
        """Return what is kept; ``None`` if it is not known yet: ask again soon."""
        lookup = self._lookups.get(asked.request_id)
        if lookup is None:
            lookup = self._start(asked)
        if lookup.is_done.wait(_MOMENT_SECONDS):
            return lookup.found
        if self._clock.monotonic() < lookup.deadline:
            return None
        self.failures += 1
        # Not asked again for this request, however late the answer comes.
        self._lookups[asked.request_id] = _answered(asked, NOTHING)
        return NOTHING

    def drop(self, request_id: str) -> None:
        """Forget a request."""
        self._lookups.pop(request_id, None)

    def close(self) -> None:
        """Stop the thread, unless the disk does not let it."""
        try:
            self._queue.put_nowait(None)
        except Full:
            return
        self._thread.join(1.0)

    def _start(self, asked: Asked) -> _Lookup:
        lookup = _Lookup(asked, self._clock.monotonic() + self._timeout_seconds)
        try:
            self._queue.put_nowait(lookup)
        except Full:
            self.failures += 1
            lookup = _answered(asked, NOTHING)
        self._lookups[asked.request_id] = lookup
        return lookup

    def _run(self) -> None:
        while (lookup := self._queue.get()) is not None:
            if self._clock.monotonic() < lookup.deadline:
                try:
                    lookup.found = self._search(lookup.asked)
                except Exception:  # noqa: BLE001  (a request goes on without its prefix)
                    self.failures += 1
            lookup.is_done.set()


def _answered(asked: Asked, found: Found) -> _Lookup:
    lookup = _Lookup(asked, 0.0, found=found)
    lookup.is_done.set()
    return lookup
