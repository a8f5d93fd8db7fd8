"""Asking the host's embedder whether it still computes."""

import socket
import time

from stepwell.embedding.frames import BadFrame, Frames, Idle, Probe, answer, frame

_READ_BYTES = 4096


def computes(path: str, timeout_seconds: float) -> bool:
    """Return whether a computing thread of the embedder at ``path`` answers in time. Blocks."""
    deadline = time.monotonic() + timeout_seconds
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_seconds)
            connection.connect(path)
            connection.sendall(frame(Probe(0)))
            return _answered(connection, deadline)
    except (OSError, BadFrame):
        return False


def _answered(connection: socket.socket, deadline: float) -> bool:
    frames = Frames()
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        data = connection.recv(_READ_BYTES)
        if not data:
            return False
        if any(isinstance(answer(body), Idle) for body in frames.feed(data)):
            return True
    return False
