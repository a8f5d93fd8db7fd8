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
        self._reason = ""
        self._since = 0.0

    def note(self, reason: str) -> None:
        """Take why it is not used just now; empty if it is."""
        if reason == self._reason:
            return
        if not reason:
            self._events.emit(Resumed(self._part, self._now() - self._since))
        elif not self._reason:
            self._since = self._now()
            self._events.emit(Bypassed(self._part, reason))
        self._reason = reason
