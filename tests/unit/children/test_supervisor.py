"""Keeping a child process running, and stopping it whatever it is at."""

import os
import signal
import threading
from collections.abc import Callable
from queue import Queue

from support.obedient_child import MODULE, Orders

from stepwell.children.child import Child
from stepwell.children.supervisor import Supervisor

SERVES = Orders(line="ready\n")
NEVER_SERVES = Orders()


def starting(orders: Orders) -> Callable[[], Child]:
    return lambda: Child(MODULE, orders.encode())


class Watched:
    """A supervisor, and all that came of it. Each queue is waited at for a minute at most."""

    def __init__(self, start: Callable[[], Child], *, restarts: bool = True) -> None:
        self.started: Queue[int] = Queue()
        self.served: Queue[int] = Queue()
        self.ends: Queue[str] = Queue()
        self.reports: Queue[str] = Queue()
        self._restarts = restarts
        self.supervisor = Supervisor(
            "child",
            start=start,
            live=self._live,
            restarts=self._ended,
            grace_seconds=60,
            report=self.reports.put,
        )

    def _live(self, child: Child) -> bool:
        self.started.put(child.pid)
        if child.ready_line(60) != b"ready\n":
            return False
        self.served.put(child.pid)
        return True

    def _ended(self, how: str) -> bool:
        self.ends.put(how)
        return self._restarts


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_child_that_dies_is_started_again() -> None:
    """A new one serves; the operator is told how the old one ended, and when the next begins."""
    watched = Watched(starting(SERVES))
    watched.supervisor.start()
    first = watched.served.get(timeout=60)
    assert watched.supervisor.pid == first
    os.kill(first, signal.SIGKILL)
    second = watched.served.get(timeout=60)
    assert watched.supervisor.pid == second != first
    watched.supervisor.stop()
    assert list(watched.reports.queue) == ["child: ended, starts again in 0.2 s: exit code -9"]
    assert list(watched.ends.queue) == ["exit code -9", "exit code -15"]
    assert is_gone(second)


def test_a_child_that_fails_to_start_is_tried_again_later() -> None:
    """The pause is longer than after a death; whoever stops need not wait for its end."""
    watched = Watched(starting(Orders(complaint="no such model\n", exit_code=3)))
    watched.supervisor.start()
    told = watched.reports.get(timeout=60)
    watched.supervisor.stop()
    assert told == "child: ended, starts again in 1 s: exit code 3, after: no such model"


def test_a_child_that_does_not_say_that_it_serves_is_stopped() -> None:
    """It is not left running beside the next one."""
    watched = Watched(starting(Orders(line="not ready\n")))
    watched.supervisor.start()
    told = watched.reports.get(timeout=60)
    watched.supervisor.stop()
    assert told == "child: ended, starts again in 1 s: exit code -15"
    assert is_gone(watched.started.get())


def test_a_machine_that_has_no_process_to_give_is_asked_again() -> None:
    """That nothing could be started is one more failed start."""
    starts = iter([OSError("no more processes"), None])

    def start() -> Child:
        problem = next(starts)
        if problem is not None:
            raise problem
        return starting(SERVES)()

    watched = Watched(start)
    watched.supervisor.start()
    served = watched.served.get(timeout=60)
    watched.supervisor.stop()
    assert list(watched.reports.queue) == ["child: ended, starts again in 1 s: no more processes"]
    assert is_gone(served)


def test_no_other_is_started_where_none_is_wanted() -> None:
    """The owner may give up; nothing is reported then."""
    watched = Watched(starting(SERVES), restarts=False)
    watched.supervisor.start()
    os.kill(watched.served.get(timeout=60), signal.SIGKILL)
    assert watched.ends.get(timeout=60) == "exit code -9"
    watched.supervisor.stop()
    assert watched.started.qsize() == 1
    assert watched.reports.empty()


def test_a_child_is_stopped_while_it_starts() -> None:
    """Nobody waits until it serves."""
    watched = Watched(starting(NEVER_SERVES))
    watched.supervisor.start()
    child = watched.started.get(timeout=60)
    watched.supervisor.stop()
    assert is_gone(child)
    assert list(watched.ends.queue) == ["exit code -15"]
    assert watched.reports.empty()


def test_a_child_that_is_just_being_started_is_stopped() -> None:
    """Stopping waits until there is a child to stop, and misses none."""

    def start() -> Child:
        stopper.start()
        return starting(NEVER_SERVES)()

    watched = Watched(start)
    stopper = threading.Thread(target=watched.supervisor.stop)
    watched.supervisor.start()
    child = watched.started.get(timeout=60)
    stopper.join(60)
    assert is_gone(child)


def test_stopping_twice_is_fine() -> None:
    """The second time there is nothing to do."""
    watched = Watched(starting(SERVES))
    watched.supervisor.start()
    child = watched.served.get(timeout=60)
    watched.supervisor.stop()
    watched.supervisor.stop()
    assert is_gone(child)
    assert watched.reports.empty()


def test_nothing_is_started_after_stopping() -> None:
    """A start that comes too late is told so."""
    watched = Watched(starting(SERVES))
    watched.supervisor.stop()
    watched.supervisor.start()
    assert watched.ends.get(timeout=60) == "it was stopped"
    assert watched.supervisor.pid is None
