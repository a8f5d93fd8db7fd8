"""Opens a TCP connection to a host that may have several addresses."""

import asyncio
import socket
from collections.abc import Sequence

HEAD_START_SECONDS = 0.25
"""What each address gets before the next is tried beside it (RFC 8305, section 5)."""

_SILENCE = (
    # Whoever takes a connection from a pool must not wait long for a host that has vanished.
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),  # milliseconds in which nothing that was sent arrived
)
"""Options by name, since not every system has all of them."""

TcpAddress = tuple[int, int, int, str, tuple[str | int | bytes, ...]]
"""As `socket.getaddrinfo` gives it: family, type, protocol, name, address."""


async def resolve(host: str, port: int) -> Sequence[TcpAddress]:
    """Return the addresses of ``host``, best first. An IP address needs no thread.

    Raises:
        OSError: The name is unknown, or the resolver does not work.
    """
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def dial(addresses: Sequence[TcpAddress]) -> socket.socket:
    """Connect to the first of ``addresses`` that answers, and return its non-blocking socket.

    They are tried in order, each `HEAD_START_SECONDS` after the one before, or as soon as that
    one has failed. By hand, because uvloop's connections know no such race.

    Raises:
        OSError: None answered; the text says of each why.
    """
    waiting = list(addresses)
    trying: set[asyncio.Task[socket.socket]] = set()
    errors: list[str] = []
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.create_task(_connected(waiting.pop(0))))
            done, trying = await asyncio.wait(
                trying,
                timeout=HEAD_START_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            winner = _first_socket(done, errors)
            if winner is not None:
                return winner
    finally:
        for task in trying:
            task.add_done_callback(_close)
            task.cancel()
    raise OSError("; ".join(errors) or "no address")


async def _connected(address: TcpAddress) -> socket.socket:
    family, kind, protocol, _, sockaddr = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SILENCE:
            if (option := getattr(socket, name, None)) is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        await asyncio.get_running_loop().sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


def _first_socket(
    done: set[asyncio.Task[socket.socket]], errors: list[str]
) -> socket.socket | None:
    """Return the socket of one of the tries that are done; close others, note errors."""
    winner: socket.socket | None = None
    for task in done:
        if (error := task.exception()) is not None:
            errors.append(str(error))
        elif winner is None:
            winner = task.result()
        else:
            _close(task)
    return winner


def _close(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()
