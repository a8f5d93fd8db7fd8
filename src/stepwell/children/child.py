"""The parent's handle on one child process."""

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

LOG_LINES = 40
"""How much of what the child said is remembered, for when it fails."""

LINE_BYTES = 4_096
"""Of a longer line the rest counts as another."""


class Child:
    """One running ``python -m`` of a module that reads a line of settings and serves.

    The module says in one line of standard output that it serves, and lives until its standard
    input ends. Thus it ends when this process does, however that happens: nobody else holds the
    pipe open. It is in a session of its own, so that Ctrl-C in a terminal reaches the gateway
    alone, which first finishes the answers it is giving.

    `stop` may be called from any thread, the other methods from one.
    """

    def __init__(self, module: str, settings: bytes) -> None:
        """Start the child and return at once.

        Args:
            module: Its full name.
            settings: One line, without its end. Here and not on the command line, which any user
                of the machine can list.

        Raises:
            OSError: There is no memory, process or file handle to be had just now.
        """
        # -P: a file in the current directory must not stand in for a module.
        self._process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._log: deque[bytes] = deque(maxlen=LOG_LINES)
        self._listener = threading.Thread(
            target=self._log.extend, args=(_lines(self._process.stderr),), daemon=True
        )
        self._listener.start()
        self._write(settings + b"\n")

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def ready_line(self, timeout_seconds: float) -> bytes:
        """Wait for the line that says it serves; return it, its end included.

        Empty if the child ended instead, or was too slow and is killed.
        """
        impatience = threading.Timer(timeout_seconds, self._process.kill)
        impatience.start()
        try:
            return self._process.stdout.readline() if self._process.stdout else b""
        finally:
            impatience.cancel()

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
                with suppress(BrokenPipeError):  # settings it did not live to read
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
            pass  # it has ended already, which `ready_line` reports


def _lines(stream: IO[bytes] | None) -> Iterator[bytes]:
    """Yield the lines of ``stream``; one that is too long in pieces."""
    while stream is not None and (line := stream.readline(LINE_BYTES)):
        yield line
