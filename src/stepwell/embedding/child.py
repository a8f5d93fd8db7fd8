"""The parent's handle on one process of the host's embedder."""

import subprocess
import sys
import threading
from collections import deque

import msgspec

from stepwell.embedding.process import READY, ProcessSettings

LOG_LINES = 40
"""How much of what the child said is remembered, for when it fails."""


class EmbedderChild:
    """One running `stepwell.embedding.process`.

    The child ends when this process does, however that happens: it reads from a pipe that
    nobody else holds open. It is in a session of its own, so that Ctrl-C in a terminal reaches
    the gateway alone, which first finishes the answers it is giving.

    `stop` may be called from any thread, the other methods from one.
    """

    def __init__(self, settings: ProcessSettings) -> None:
        """Start the child; it loads the model, which takes half a second, seconds at first."""
        # -P: a file in the current directory must not stand in for a module.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stepwell.embedding.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._log: deque[bytes] = deque(maxlen=LOG_LINES)
        self._listener = threading.Thread(
            target=self._log.extend, args=(self._process.stderr,), daemon=True
        )
        self._listener.start()
        self._write(msgspec.json.encode(settings) + b"\n")

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def wait_until_ready(self, timeout_seconds: float) -> bool:
        """Return whether it serves; if it was too slow it is killed."""
        impatience = threading.Timer(timeout_seconds, self._process.kill)
        impatience.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout else b""
        finally:
            impatience.cancel()
        return line == READY

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end, but no longer than that; return whether it came."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait(self) -> str:
        """Wait until it has ended; return how, and the last of what it said."""
        code = self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        said = b"".join(self._log).decode(errors="replace").strip()
        return f"exit code {code}{', after: ' if said else ''}{said}"

    def stop(self, grace_seconds: float) -> None:
        """Make it end: ask, wait for ``grace_seconds``, then force it. Does not raise."""
        self._process.terminate()
        if not self.ended_within(grace_seconds):
            self._process.kill()

    def _write(self, line: bytes) -> None:
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended already, which `wait_until_ready` reports
