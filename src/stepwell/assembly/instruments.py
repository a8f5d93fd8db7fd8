"""What shows what happens in a house."""

from dataclasses import dataclass

from stepwell.core.clock import Clock
from stepwell.core.ports import EventSink
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.log import RequestLog
from stepwell.telemetry.meters import Meters


@dataclass(frozen=True, slots=True)
class Instruments:
    """The same for all rooms of a process."""

    meters: Meters
    """Count."""
    events: EventSink
    """Hears of everything; ``meters`` among others."""
    gauges: Gauges
    clock: Clock
    log: RequestLog | None
    """Among ``events``; ``None``: nothing is logged."""
