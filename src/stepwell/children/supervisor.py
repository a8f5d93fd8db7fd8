"""Keeps a child process running: starts it, starts it again when it ends, and stops it."""

import threading
from collections.abc import Callable

from stepwell.children.child import Child

RESTART_PAUSES_SECONDS = (0.2, 1.0, 5.0, 30.0)
"""Before each start after a child ended; from the beginning again once one has served."""


class Supervisor:
    """Keeps one child running, from a thread of its own. Safe to call from any thread."""

    def __init__(
        self,
        name: str,
        *,
        start: Callable[[], Child],
        live: Callable[[Child], bool],
        restarts: Callable[[str], bool],
        grace_seconds: float,
        report: Callable[[str], None],
    ) -> None:
        """Describe what to keep running. All that is passed in is called from the thread.

        Args:
            name: What the child is, for the operator.
            start: Starts a child, or raises `OSError`. Not called again after `stop`.
            live: Takes a child that was just started: waits until it serves, and looks after it
                for as long as it likes. Returns whether it served; one that did not is stopped.
            restarts: Takes how a child ended, or why none was started; returns whether to start
                another.
            grace_seconds: How long a child that is stopped may take to end by itself.
            report: Takes a line for the operator at each restart. Must not raise.
        """
        self._name = name
        self._start = start
        self._live = live
        self._restarts = restarts
        self._grace_seconds = grace_seconds
        self._report = report
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._child: Child | None = None
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the last child that was started."""
        return self._child.pid if self._child else None

    def start(self) -> None:
        """Begin to start a child and return at once. Once in this object's life."""
        self._thread = threading.Thread(target=self._supervise, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the child; returns when the process is gone. Blocks; may be called twice."""
        with self._lock:
            self._stopping.set()
            child = self._child
        if child is not None:
            child.stop(self._grace_seconds)
        if self._thread is not None:
            self._thread.join()

    def _supervise(self) -> None:
        """Keep a child running until stopped."""
        failures = 0
        while True:
            try:
                served, ended = self._live_once()
            except OSError as error:  # no memory, process or file handle to be had just now
                served, ended = False, str(error)
            if not self._restarts(ended) or self._stopping.is_set():
                return
            failures = 0 if served else failures + 1
            pause = RESTART_PAUSES_SECONDS[min(failures, len(RESTART_PAUSES_SECONDS) - 1)]
            self._report(f"{self._name}: ended, starts again in {pause:g} s: {ended}")
            self._stopping.wait(pause)

    def _live_once(self) -> tuple[bool, str]:
        """Run one child to its end; return whether it ever served, and how it ended."""
        child = self._spawn()
        if child is None:
            return False, "it was stopped"
        served = self._live(child)
        if not served:
            child.stop(self._grace_seconds)
        return served, child.wait()

    def _spawn(self) -> Child | None:
        """Start a child unless stopped. Locked, so that `stop` misses none."""
        with self._lock:
            if self._stopping.is_set():
                return None
            self._child = self._start()
            return self._child
