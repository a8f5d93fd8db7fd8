"""The address the gateway listens on."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from stepwell.core.errors import ConfigError


def _advice(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "choose another with --port, or stop who is there"
        case errno.EACCES:
            return "choose a port above 1023 with --port"
        case _:
            return "choose an address of this machine with --host"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Bind the address before anything slow happens; all workers accept from the one socket.

    A socket for each worker (``SO_REUSEPORT``) would spread a burst of connections more evenly,
    but those dealt to a worker that hangs or dies would wait or be reset: with one socket another
    worker takes them.

    Raises:
        ConfigError: It is taken, or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"server.host and server.port: cannot listen on {host}:{port}"
                f" ({error.strerror}); {_advice(error)}."
            ) from error
        yield sock
