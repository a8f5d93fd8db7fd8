"""Our own client for plain ``http://``: a model server on this machine, or in the same network.

It does what such servers need and no more, and so costs a fraction of a general client: no TLS,
proxies, redirects, cookies or HTTP/2. POSIX only (`select.poll`).
"""

import asyncio

from stepwell.engines.direct_connection import Connection, Owner
from stepwell.engines.direct_dial import dial, resolve
from stepwell.engines.direct_pool import Pool
from stepwell.engines.direct_reply import DirectReply
from stepwell.engines.http_address import Address
from stepwell.engines.http_transport import CannotConnect, ConnectTimeout, Limits, Request

_WITHOUT_BODY = frozenset({"GET", "HEAD"})
"""Methods for which no ``content-length`` says that there is no body (RFC 9110, section 8.6)."""


class DirectTransport:
    """Implements `stepwell.engines.http_transport.Transport`."""

    def __init__(self, address: Address, limits: Limits) -> None:
        self._address = address
        self._version_and_host = f" HTTP/1.1\r\nhost: {address.authority}\r\n"
        self._limits = limits
        self._pool = Pool(self._connect, max_connections=limits.max_connections)

    async def exchange(self, request: Request, *, fresh: bool) -> DirectReply:
        """Send ``request`` once and return when the reply's head is there.

        Raises:
            CannotConnect, ConnectTimeout, TimeoutError, Broken: As `Transport` says.
        """
        head = self._head(request)
        timeout_seconds = self._limits.first_byte_timeout_seconds
        connection = None if fresh else self._pool.take_kept()
        if connection is None:
            loop = asyncio.get_running_loop()
            started = loop.time()
            async with asyncio.timeout(timeout_seconds):
                connection = await self._pool.take(fresh=fresh)
            timeout_seconds -= loop.time() - started
        return await connection.exchange(
            head,
            request.body,
            is_head=request.method == "HEAD",
            timeout_seconds=timeout_seconds,
        )

    async def aclose(self) -> None:
        """Close all connections; replies still being read break off. May be called twice."""
        await self._pool.aclose()

    def _head(self, request: Request) -> bytes:
        fields = "".join([f"{name}: {value}\r\n" for name, value in request.fields])
        if request.body or request.method not in _WITHOUT_BODY:
            fields = f"{fields}content-length: {len(request.body)}\r\n"
        start = f"{request.method} {request.target}{self._version_and_host}"
        return f"{start}{fields}\r\n".encode("latin-1")

    async def _connect(self, owner: Owner) -> Connection:
        limits, address = self._limits, self._address
        try:
            async with asyncio.timeout(limits.connect_timeout_seconds):
                sock = await dial(await resolve(address.host, address.port))
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(owner, chunk_timeout_seconds=limits.chunk_timeout_seconds),
                sock=sock,
            )
        except TimeoutError:
            raise ConnectTimeout from None
        except OSError as error:
            raise CannotConnect(f"{address.authority}: {error}") from error
        return connection
