"""Starts the host's embedder, starts it again when it dies or hangs, and stops it."""

import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stepwell.children.child import Child
from stepwell.children.supervisor import Supervisor
from stepwell.embedding.probe import computes
from stepwell.embedding.process import READY, ProcessSettings
from stepwell.embedding.recipes import Facts, Recipe, facts
from stepwell.embedding.sources import find_sources

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
        self._serving = threading.Event()
        self._supervisor = Supervisor(
            "embedder",
            start=self._start_child,
            live=self._live,
            restarts=lambda _: True,
            grace_seconds=STOP_GRACE_SECONDS,
            report=report,
        )

    @property
    def pid(self) -> int | None:
        """Process id of the last child that was started."""
        return self._supervisor.pid

    def start(self) -> EmbedderAddress:
        """Begin to start it and return at once. Once in this object's life.

        Raises:
            ConfigError: Its weights are not installed; the message says what to do.
        """
        find_sources(self._recipe)
        self._supervisor.start()
        return EmbedderAddress(self._settings.socket, facts(self._recipe))

    def wait_until_serving(self, timeout_seconds: float) -> bool:
        """Return whether it has begun to serve by then. Blocks."""
        return self._serving.wait(timeout_seconds)

    def stop(self) -> None:
        """Stop it; returns when the process is gone. Blocks; may be called twice."""
        self._supervisor.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_child(self) -> Child:
        return Child("stepwell.embedding.process", msgspec.json.encode(self._settings))

    def _live(self, child: Child) -> bool:
        """Wait until a child serves, then kill it when it no longer computes."""
        if child.ready_line(START_TIMEOUT_SECONDS) != READY:
            return False
        self._report(f"embedder: {self._recipe.name} is ready")
        self._serving.set()
        while not child.ended_within(self._probe_every_seconds):
            if not computes(self._settings.socket, self._probe_timeout_seconds):
                self._report("embedder: does not answer, and is killed")
                child.stop(0)
        return True
