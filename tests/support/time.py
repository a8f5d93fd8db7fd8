"""A gateway whose time stands still until a test turns it."""

import pytest

from stepwell.assembly import house
from stepwell.testing.clock import HandClock


def stop_time(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """Give every gateway that is built from now on this clock in place of the machine's."""
    clock = HandClock(1_000_000.0)
    monkeypatch.setattr(house, "SystemClock", lambda: clock)
    return clock
