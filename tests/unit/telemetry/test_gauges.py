"""Gauges are read when asked for."""

import platform

from stepwell.telemetry.catalogue import BYTES, IN_FLIGHT
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.series import Series


def test_own_and_shared() -> None:
    """A worker's own levels are told from those every worker reads; each is read anew."""
    gauges = Gauges("1.2.3")
    held: list[int] = []
    gauges.watch(IN_FLIGHT, held.__len__)
    gauges.watch(BYTES, lambda: 7, "disk", shared=True)
    gauges.read()
    held.append(1)
    levels = gauges.read()
    assert levels.own == {Series("stepwell_workers"): 1, Series("stepwell_in_flight"): 1}
    assert levels.shared == {
        Series(
            "stepwell_build_info",
            (("version", "1.2.3"), ("python", platform.python_version())),
        ): 1,
        Series("stepwell_bytes", (("tier", "disk"),)): 7,
    }
