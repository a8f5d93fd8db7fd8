"""Events reach every sink, even beside a broken one."""

from stepwell.core.events import Degraded, Event, Stored
from stepwell.telemetry.fanout import Fanout


class Kept:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


class Broken:
    def emit(self, event: Event) -> None:
        raise ValueError("bug")


def test_all_sinks_get_the_event() -> None:
    """An event goes to every sink as it is."""
    first, second, event = Kept(), Kept(), Stored("faq", 1)
    Fanout(first, second).emit(event)
    assert first.events == second.events == [event]


def test_a_broken_sink_is_reported() -> None:
    """A sink that raises does not keep the event from the others, which learn of it."""
    before, after, event = Kept(), Kept(), Stored("faq", 1)
    fanout = Fanout(before, Broken(), after)
    fanout.emit(event)
    report = Degraded("telemetry.Broken", "ValueError('bug')")
    assert before.events == [event, report]
    assert after.events == [report, event]
    assert fanout.failures == 1


def test_only_broken_sinks() -> None:
    """Even then nothing is raised, and the failures are counted."""
    fanout = Fanout(Broken(), Broken())
    fanout.emit(Stored("faq", 1))
    assert fanout.failures == 4
