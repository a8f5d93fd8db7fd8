"""Opens connections that can be asked at once: encrypted, logged in, in the right db."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.stores.redis.address import Credentials, Endpoint, HostPort, UnixSocket
from stepwell.stores.redis.link import Link, Refused, Reply, Word

CLIENT_NAME = "stepwell"
"""How ``CLIENT LIST`` shows us."""

_NOT_LET_IN = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})

_SILENCE = (
    # A connection on which we only listen must notice that its server has vanished.
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
)
"""Options by name, since not every system has all of them."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server says of itself."""

    mode: str
    """``standalone``, ``cluster`` or ``sentinel``."""
    role: str
    """``master`` or ``replica``; empty for a sentinel."""


Check = Callable[[Endpoint, Greeting], None]
"""Raises `StoreUnavailable`, or `ConfigError`, if a server is not the one that is wanted."""


def expect_lone_master(endpoint: Endpoint, greeting: Greeting) -> None:
    """Accept a master that is no part of a cluster.

    Raises:
        ConfigError: It is something that needs another form of URL.
        StoreUnavailable: It is a replica.
    """
    if greeting.mode in {"cluster", "sentinel"}:
        raise ConfigError(
            f"stores.redis.url: {endpoint} is of a {greeting.mode}; its URL must begin with"
            f" redis+{greeting.mode}:// (rediss+{greeting.mode}:// for TLS)"
        )
    expect_master(endpoint, greeting)


def expect_master(endpoint: Endpoint, greeting: Greeting) -> None:
    """Accept a master.

    Raises:
        StoreUnavailable: It is something else.
    """
    del endpoint
    if greeting.role != "master":
        raise StoreUnavailable(f"it is a {greeting.role or greeting.mode}, not a master")


def expect_any(endpoint: Endpoint, greeting: Greeting) -> None:
    """Accept whatever answers."""
    del endpoint, greeting


@dataclass(frozen=True, slots=True)
class Dialer:
    """Opens connections, all in the same way. Safe for many tasks on one event loop."""

    context: ssl.SSLContext | None
    """``None``: not encrypted. Unix sockets never are."""
    credentials: Credentials
    db: int
    timeout_seconds: float
    """For all of it, from the name's address to the last reply."""
    sentinel_credentials: Credentials

    async def dial(self, endpoint: Endpoint, check: Check) -> Link:
        """Return a connection that can be asked at once.

        Needs Redis 6 or newer, or Valkey.

        Raises:
            StoreUnavailable: There is none in time, or we are refused. Says what to do.
            ConfigError: What no waiting mends: no such db, or as ``check`` finds.
        """
        async with _limited(endpoint, self.timeout_seconds):
            link = await self._connect(endpoint)
            try:
                check(endpoint, await self._greet(endpoint, link))
            except BaseException:
                link.close()
                raise
            return link

    async def ask_sentinel(self, endpoint: HostPort, *words: Word, timeout_seconds: float) -> Reply:
        """Return the reply of a sentinel, which is asked once.

        Raises:
            StoreUnavailable: None came in time, or we are refused.
        """
        username, password = self.sentinel_credentials.username, self.sentinel_credentials.password
        async with _limited(endpoint, timeout_seconds):
            link = await self._connect(endpoint)
            try:
                if password is not None:
                    login = "AUTH", username or "default", password
                    await link.ask(*login, timeout_seconds=timeout_seconds)
                return await link.ask(*words, timeout_seconds=timeout_seconds)
            except Refused as error:
                if error.code not in _NOT_LET_IN:
                    raise
                raise StoreUnavailable(
                    f"the sentinel refuses us ({error}); see stores.redis.sentinel_password_env"
                ) from None
            finally:
                link.close()

    async def _connect(self, endpoint: Endpoint) -> Link:
        match endpoint:
            case UnixSocket(path):
                loop = asyncio.get_running_loop()
                return (await loop.create_unix_connection(Link, path))[1]
            case HostPort(host, port):
                return await self._connect_tcp(host, port)

    async def _connect_tcp(self, host: str, port: int) -> Link:
        """Try the host's addresses in turn; none gets more than its share of the time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.timeout_seconds
        addresses = await _resolve(host, port)
        errors: list[str] = []
        for index, address in enumerate(addresses):
            share = (end - loop.time()) / (len(addresses) - index)
            try:
                async with asyncio.timeout(share):
                    return await self._connect_address(host, address, port)
            except TimeoutError:
                errors.append(f"{address} does not answer")
            except OSError as error:
                errors.append(_reason(error))
        raise OSError("; ".join(dict.fromkeys(errors)))

    async def _connect_address(self, host: str, address: str, port: int) -> Link:
        transport, link = await asyncio.get_running_loop().create_connection(
            Link,
            address,
            port,
            ssl=self.context,
            server_hostname=None if self.context is None else host,
        )
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _SILENCE:
            if (option := getattr(socket, name, None)) is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        return link

    async def _greet(self, endpoint: Endpoint, link: Link) -> Greeting:
        username, password = self.credentials.username, self.credentials.password
        auth = () if password is None else ("AUTH", username or "default", password)
        hello = link.ask(
            "HELLO", 2, *auth, "SETNAME", CLIENT_NAME, timeout_seconds=self.timeout_seconds
        )
        # In the same write; without a login it is refused as well.
        select = (
            link.ask("SELECT", self.db, timeout_seconds=self.timeout_seconds) if self.db else None
        )
        try:
            greeting = _parse_hello(await hello)
        except Refused as error:
            raise _not_welcome(username, error) from None
        if select is not None:
            await self._select(endpoint, select)
        return greeting

    async def _select(self, endpoint: Endpoint, selected: asyncio.Future[Reply]) -> None:
        try:
            await selected
        except Refused as error:
            if error.code != "ERR":
                raise StoreUnavailable(f"it refuses db {self.db}: {error}") from None
            raise ConfigError(
                f"stores.redis.url: {endpoint} has no db {self.db} ({error}); its own setting"
                " `databases` says how many there are"
            ) from None


@asynccontextmanager
async def _limited(endpoint: Endpoint, timeout_seconds: float) -> AsyncIterator[None]:
    """Turn all that keeps a connection from being made, time too, into `StoreUnavailable`."""
    try:
        async with asyncio.timeout(timeout_seconds):
            yield
    except ConfigError:
        raise  # a ValueError
    except StoreUnavailable as error:
        raise StoreUnavailable(f"{endpoint}: {error}") from error
    except TimeoutError:
        raise StoreUnavailable(f"{endpoint}: not ready within {timeout_seconds:g} s") from None
    except (OSError, ValueError, OverflowError) as error:  # of names and ports that are none, too
        raise StoreUnavailable(f"{endpoint}: {_reason(error)}") from error


async def _resolve(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of ``host``, best first, without blocking the loop."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for _, _, _, _, sockaddr in found]


def _parse_hello(reply: Reply) -> Greeting:
    if not isinstance(reply, list):
        raise StoreUnavailable("it does not greet as Redis does")
    fields = {
        name: value.decode(errors="replace")
        for name, value in zip(reply[::2], reply[1::2], strict=False)
        if isinstance(name, bytes) and isinstance(value, bytes)
    }
    return Greeting(fields.get(b"mode", ""), fields.get(b"role", ""))


def _not_welcome(username: str | None, error: Refused) -> StoreUnavailable:
    """Return why a server does not let us in. Says more than its words where those are known."""
    match error.code:
        case "WRONGPASS":
            return StoreUnavailable(
                f"it refuses the user {username or 'default'!r} with this password; correct"
                " stores.redis.url, or the variable that stores.redis.password_env names"
            )
        case "NOAUTH":
            return StoreUnavailable(
                "it wants a password; put it into a variable and name that in"
                " stores.redis.password_env"
            )
        case "ERR" if "unknown command" in str(error):
            return StoreUnavailable("it is too old; Redis 6 or newer, or Valkey, is needed")
        case _:
            return StoreUnavailable(f"it refuses us: {error}")


def _reason(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return (
                f"its certificate is not accepted ({error.verify_message}); see"
                " stores.redis.ca_file and stores.redis.check_hostname"
            )
        case ssl.SSLError():
            return f"TLS failed ({error.reason or error}); does it speak TLS at all?"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number)
        case OSError(strerror=str(text)):
            return text
        case _:
            return str(error)
