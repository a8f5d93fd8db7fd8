"""Writes lines to a file descriptor from a thread of its own."""

import os
import stat
import threading
from queue import SimpleQueue

MAX_LINE_BYTES = 4096
"""What one write to a pipe takes whole (``PIPE_BUF`` on Linux): several worker processes may
share the pipe, and shorter lines of theirs cannot mix."""

MAX_PENDING_BYTES = 4 << 20
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
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        self._batches: SimpleQueue[bytearray | None] = SimpleQueue()
        # Each number has one thread that changes it, so none needs a lock.
        self._offered_bytes = 0
        self._done_bytes = 0
        self._refused_lines = 0
        self._failed_lines = 0
        self._reported_lines = 0
        self._thread = threading.Thread(target=self._run, name="stepwell-log", daemon=True)
        self._thread.start()

    def offer(self, lines: bytearray) -> None:
        """Take over ``lines``, each with its line feed, or drop them if too much is pending."""
        if self._offered_bytes - self._done_bytes + len(lines) > MAX_PENDING_BYTES:
            self._refused_lines += lines.count(b"\n")
            return
        self._offered_bytes += len(lines)
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
            # Each write costs the loop a change of threads, so elsewhere a batch is one write.
            for chunk in whole_lines(lines) if self._is_pipe else [lines]:
                try:
                    self._write(chunk)
                except OSError:
                    self._failed_lines += chunk.count(b"\n")
            self._done_bytes += len(lines)

    def _write(self, data: bytearray) -> None:
        written = os.write(self._descriptor, data)
        while written < len(data):
            written += os.write(self._descriptor, data[written:])


def whole_lines(lines: bytearray) -> list[bytearray]:
    """Cut into chunks of whole lines, of at most `MAX_LINE_BYTES`; a longer line stands alone."""
    chunks = []
    start = 0
    while start < len(lines):
        end = lines.rfind(b"\n", start, start + MAX_LINE_BYTES) + 1
        if end == 0:
            end = lines.index(b"\n", start) + 1
        chunks.append(lines[start:end])
        start = end
    return chunks
