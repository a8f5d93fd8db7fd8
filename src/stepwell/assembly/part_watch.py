"""Tells when a part of the house stops to be used, and when it is used again: a line for each."""

from stepwell.core.clock import Clock
from stepwell.core.events import Bypassed, Resumed
from stepwell.core.ports import EventSink


class PartWatch:
    """Watches one part."""

    def __init__(self, part: str, *, clock: Clock, events: EventSink) -> None:
        """Take it for working.

        Args:
            part: Its name, such as ``redis``.
            clock: For how long it was not used.
            events: Hears of changes.
        """
        self._part = part
        self._now = clock.monotonic
        self._events = events
        self._bypassed_since: float | None = None

    def note(self, reason: str) -> None:
        """Take why it is not used just now; empty if it is."""
        since = self._bypassed_since
        if reason and since is None:
            self._bypassed_since = self._now()
            self._events.emit(Bypassed(self._part, reason))
        elif not reason and since is not None:
            self._bypassed_since = None
            self._events.emit(Resumed(self._part, self._now() - since))
