"""Ports at which no server answers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refusing() -> Iterator[socket.socket]:
    """Nobody listens. The port is held, so that nobody else comes to listen there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


@contextmanager
def silent() -> Iterator[socket.socket]:
    """Listen, but answer no handshake: the queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        with socket.create_connection(listener.getsockname()), socket.socket() as waiting:
            waiting.settimeout(0)
            waiting.connect_ex(listener.getsockname())
            yield listener
