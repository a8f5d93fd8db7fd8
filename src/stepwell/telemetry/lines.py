"""Writes lines to a file descriptor from a thread of its own."""

import os
import threading
from queue import SimpleQueue

MAX_LINE_BYTES = 4096
"""What one write to a pipe takes whole (``PIPE_BUF`` on Linux): several worker processes may
share the pipe, and shorter lines of theirs cannot mix."""

MAX_PENDING_BYTES = 1 << 20
"""Lines beyond this, which a slow reader has not taken yet, are not accepted."""


class LineWriter:
    """Takes lines without ever blocking, and writes them in order.

    The thread may block: on a full pipe, a paused terminal, a slow disk. Making the descriptor
    non-blocking instead would change it for every process that shares it, and does not help
    with disks. `offer` and `take_lost` belong to one thread.
    """

    def __init__(self, descriptor: int) -> None:
        """Start the thread. ``descriptor`` stays the caller's to close, after `close`."""
        self._descriptor = descriptor
        self._batches: SimpleQueue[list[bytes] | None] = SimpleQueue()
        # Each number has one thread that changes it, so none needs a lock.
        self._offered_bytes = 0
        self._done_bytes = 0
        self._refused_lines = 0
        self._failed_lines = 0
        self._reported_lines = 0
        self._thread = threading.Thread(target=self._run, name="stepwell-log", daemon=True)
        self._thread.start()

    def offer(self, lines: list[bytes]) -> None:
        """Take over ``lines``, each with its line feed, or drop them if too much is pending."""
        size = sum(map(len, lines))
        if self._offered_bytes - self._done_bytes + size > MAX_PENDING_BYTES:
            self._refused_lines += len(lines)
            return
        self._offered_bytes += size
        self._batches.put(lines)

    def take_lost(self) -> int:
        """Return how many lines were dropped, or could not be written, since the last call."""
        lost = self._refused_lines + self._failed_lines
        fresh = lost - self._reported_lines
        self._reported_lines = lost
        return fresh

    def close(self, timeout_seconds: float) -> bool:
        """Write what is pending, for at most so long; return whether all of it was written.

        If not, the thread stays behind until the process ends.
        """
        self._batches.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (lines := self._batches.get()) is not None:
            for chunk in whole_lines(lines):
                try:
                    self._write(b"".join(chunk))
                except OSError:
                    self._failed_lines += len(chunk)
            self._done_bytes += sum(map(len, lines))

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


def whole_lines(lines: list[bytes]) -> list[list[bytes]]:
    """Group lines into chunks of at most `MAX_LINE_BYTES`; a longer line stands alone."""
    chunks: list[list[bytes]] = []
    room = 0
    for line in lines:
        if len(line) > room:
            chunks.append([])
            room = MAX_LINE_BYTES
        chunks[-1].append(line)
        room -= len(line)
    return chunks
