"""Hands events to several sinks."""

from stepwell.core.events import Degraded, Event
from stepwell.core.ports import EventSink


class Fanout:
    """An `EventSink` that passes each event on to all of its sinks, in order.

    A sink that raises is a bug, but no reason to fail a request: the other sinks get the event,
    and then a `Degraded` event that names the sink, as the component ``telemetry.<class name>``.

    Attributes:
        failures: How often a sink raised.
    """

    __slots__ = ("_sinks", "failures")

    def __init__(self, *sinks: EventSink) -> None:
        """Pass events on to ``sinks``."""
        self._sinks = sinks
        self.failures = 0

    def emit(self, event: Event) -> None:
        """Pass ``event`` on."""
        for sink in self._sinks:
            try:
                sink.emit(event)
            except Exception as error:  # noqa: BLE001  (whatever it is, the request goes on)
                self._report(sink, error)

    def _report(self, broken: EventSink, error: Exception) -> None:
        self.failures += 1
        degraded = Degraded(f"telemetry.{type(broken).__name__}", repr(error))
        for sink in self._sinks:
            if sink is not broken:
                try:
                    sink.emit(degraded)
                except Exception:  # noqa: BLE001  (two broken sinks cannot report each other)
                    self.failures += 1
