"""The seam between `HttpSession` and what carries its requests: our own client, or aiohttp."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stepwell.engines.http_address import Address

KEEP_ALIVE_SECONDS = 30.0
"""How long an idle connection is kept. Servers that close theirs sooner are noticed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one model server may take. Times are limits of one try."""

    connect_timeout_seconds: float
    first_byte_timeout_seconds: float
    chunk_timeout_seconds: float
    max_connections: int


@dataclass(slots=True)
class Request:
    """One HTTP request, checked and ready to be sent, any number of times.

    Not frozen, because it is made for each call; nobody changes it.
    """

    method: str
    target: str
    """Path and query, percent-encoded. As in fields, a character is an octet."""
    fields: Sequence[tuple[str, str]]
    """All but ``host`` and ``content-length``. Names in lower case; a character is an octet."""
    body: bytes


class CannotConnect(Exception):
    """No connection, so nothing was sent. Its text says why."""


class ConnectTimeout(Exception):
    """No connection within ``connect_timeout_seconds``; nothing was sent."""


class Broken(Exception):
    """The connection failed after a request went out, or what came over it is not HTTP.

    Its text quotes neither the request, which holds the key, nor what the server sent.

    Attributes:
        stale_after_seconds: If a *kept* connection ended before any byte of a reply: how soon
            after the request went out. Otherwise ``None``.
    """

    def __init__(self, reason: str, *, stale_after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.stale_after_seconds = stale_after_seconds


class TransportReply(Protocol):
    """A reply whose head has come. Read by one task at a time."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def raw_fields(self) -> Sequence[tuple[bytes, bytes]]:
        """All header fields as they came."""
        ...

    async def read(self) -> bytes:
        """Return what has come of the body, waiting only if nothing has; nothing at its end.

        Raises:
            TimeoutError: Nothing came within ``chunk_timeout_seconds``.
            Broken: The connection ended before the body did.
        """
        ...

    def close(self) -> None:
        """Drop the connection, unless the body has come whole. May be called twice."""
        ...


class Transport(Protocol):
    """Connections to one server. Opens none before the first request."""

    async def exchange(self, request: Request, *, fresh: bool) -> TransportReply:
        """Send ``request`` once and return when the reply's head is there.

        Cancelling drops the connection. With ``fresh``, a new connection is made for it.

        Raises:
            CannotConnect, ConnectTimeout: Nothing was sent.
            TimeoutError: No head within ``first_byte_timeout_seconds``.
            Broken: The request was sent, or a part of it.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; replies still being read break off. May be called twice."""
        ...


OpenTransport = Callable[[Address, Limits], Transport]
