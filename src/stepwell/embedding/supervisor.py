"""Starts the host's embedder, starts it again when it dies or hangs, and stops it."""

import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stepwell.embedding.child import EmbedderChild
from stepwell.embedding.probe import computes
from stepwell.embedding.process import ProcessSettings
from stepwell.embedding.recipes import Facts, Recipe, facts
from stepwell.embedding.sources import find_sources

RESTART_PAUSES_SECONDS = (0.2, 1.0, 5.0, 30.0)
"""Before each start after the child ended; from the beginning again once one has served."""

START_TIMEOUT_SECONDS = 120.0
"""For converting and loading the model. Three seconds at first and half a second later, on an
idle machine."""

PROBE_EVERY_SECONDS = 10.0
PROBE_TIMEOUT_SECONDS = 30.0
"""A full queue of the longest texts takes less."""

STOP_GRACE_SECONDS = 2.0

QUEUE = 256


@dataclass(frozen=True, slots=True)
class EmbedderAddress:
    """How to reach the host's embedder, and what it is. The same across its restarts; can be
    sent to another process.
    """

    socket: str
    facts: Facts


class EmbedderProcess:
    """The host's embedder, watched from here by a thread.

    A process of its own, because all workers share its memory, a crash in native code takes none
    of them along, and its work does not hold their interpreter lock. Clients
    (`stepwell.embedding.remote`) may connect at any time; while it starts, they fail at once.
    A process that is *forked* from this one keeps it alive; spawned ones do not.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        cache: Path,
        threads: int,
        report: Callable[[str], None],
        probe_every_seconds: float = PROBE_EVERY_SECONDS,
        probe_timeout_seconds: float = PROBE_TIMEOUT_SECONDS,
    ) -> None:
        """Describe the process.

        Args:
            recipe: Which bundled embedder.
            cache: Folder for the converted model; 60 MB.
            threads: Texts computed at the same time, each on one processor.
            report: Takes a line for the operator at each start, death and restart. Called from
                another thread; must not raise.
            probe_every_seconds: How often it is asked whether it still computes.
            probe_timeout_seconds: It is killed, and started again, if it does not say so in time.
        """
        self._recipe = recipe
        self._report = report
        self._probe_every_seconds = probe_every_seconds
        self._probe_timeout_seconds = probe_timeout_seconds
        # Not below the data directory: a socket's path may have no more than 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="stepwell-"))
        self._settings = ProcessSettings(
            recipe=recipe.name,
            cache=str(cache.resolve()),
            socket=str(self._folder / "embedder"),
            threads=threads,
            queue=QUEUE,
        )
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._serving = threading.Event()
        self._child: EmbedderChild | None = None
        self._supervisor: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the last child that was started."""
        return self._child.pid if self._child else None

    def start(self) -> EmbedderAddress:
        """Begin to start it and return at once. Once in this object's life.

        Raises:
            ConfigError: Its weights are not installed; the message says what to do.
        """
        find_sources(self._recipe)
        self._supervisor = threading.Thread(
            target=self._supervise, name="embedder-supervisor", daemon=True
        )
        self._supervisor.start()
        return EmbedderAddress(self._settings.socket, facts(self._recipe))

    def wait_until_serving(self, timeout_seconds: float) -> bool:
        """Return whether it has begun to serve by then. Blocks."""
        return self._serving.wait(timeout_seconds)

    def stop(self) -> None:
        """Stop it; returns when the process is gone. Blocks; may be called twice."""
        with self._lock:
            self._stopping.set()
            child = self._child
        if child is not None:
            child.stop(STOP_GRACE_SECONDS)
        if self._supervisor is not None:
            self._supervisor.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _supervise(self) -> None:
        """Keep a child running until stopped."""
        failures = 0
        while True:
            try:
                served, ended = self._live_once()
            except OSError as error:  # no memory, process or file handle to be had just now
                served, ended = False, str(error)
            if self._stopping.is_set():
                return
            failures = 0 if served else failures + 1
            pause = RESTART_PAUSES_SECONDS[min(failures, len(RESTART_PAUSES_SECONDS) - 1)]
            self._report(f"embedder: ended, starts again in {pause:g} s: {ended}")
            self._stopping.wait(pause)

    def _live_once(self) -> tuple[bool, str]:
        """Run one child to its end; return whether it ever served, and how it ended."""
        child = self._spawn()
        if child is None:
            return False, "it was stopped"
        if not child.wait_until_ready(START_TIMEOUT_SECONDS):
            child.stop(STOP_GRACE_SECONDS)
            return False, child.wait()
        self._report(f"embedder: {self._recipe.name} is ready")
        self._serving.set()
        while not child.ended_within(self._probe_every_seconds):
            if not computes(self._settings.socket, self._probe_timeout_seconds):
                self._report("embedder: does not answer, and is killed")
                child.stop(0)
        return True, child.wait()

    def _spawn(self) -> EmbedderChild | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            self._child = EmbedderChild(self._settings)
            return self._child
