"""Values that are read when someone looks, not counted."""

import platform
from collections.abc import Callable
from dataclasses import dataclass

from stepwell.telemetry.catalogue import BUILD_INFO, WORKERS, Metric
from stepwell.telemetry.series import Series


@dataclass(frozen=True, slots=True)
class Levels:
    """All gauges at one moment."""

    own: dict[Series, float]
    """Of this process alone: a scrape shows the sum over all workers."""
    shared: dict[Series, float]
    """The same seen from every worker: a scrape shows one worker's reading."""


class Gauges:
    """The gauges of one worker process. For one event loop."""

    __slots__ = ("_own", "_shared")

    def __init__(self, version: str) -> None:
        """Start with `WORKERS` and `BUILD_INFO`; ``version`` is this package's."""
        self._own: dict[Series, Callable[[], float]] = {}
        self._shared: dict[Series, Callable[[], float]] = {}
        self.watch(WORKERS, _one)
        self.watch(BUILD_INFO, _one, version, platform.python_version(), shared=True)

    def watch(
        self, metric: Metric, read: Callable[[], float], *labels: str, shared: bool = False
    ) -> None:
        """Read a gauge by ``read`` from now on.

        Args:
            metric: From the catalogue.
            read: Called about once a second on the event loop: must be quick and must not raise.
            labels: Label values in the catalogue's order.
            shared: Whether every worker reads the same value, as of a tier on disk.
        """
        series = Series(metric.name, tuple(zip(metric.labels, map(str, labels), strict=True)))
        (self._shared if shared else self._own)[series] = read

    def read(self) -> Levels:
        """Read all gauges."""
        return Levels(
            own={series: read() for series, read in self._own.items()},
            shared={series: read() for series, read in self._shared.items()},
        )


def _one() -> float:
    return 1
