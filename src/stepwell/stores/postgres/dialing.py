"""Connections to PostgreSQL: made, set up, and what is wrong if they cannot be."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import asyncpg

from stepwell.core.errors import ConfigError, StoreUnavailable

Connection: TypeAlias = Any
"""`asyncpg.Connection`, which comes without types."""

CONNECT_SECONDS = 5.0
"""What a connection may take to be ready, the tables it needs included."""

_SPEAKS_IN_TIME = 0.8
"""Share of a call's time after which the server gives it up: then it can still say so."""

_UNMENDED = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    ValueError,
)
"""What no waiting mends."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, and who we are there."""

    url: str
    """``postgresql://user@host:5432/name``; what `asyncpg` reads of it counts, ``sslmode`` too."""
    password: str | None = None
    """What the URL does not say already."""

    def __str__(self) -> str:
        """Return where, without a password."""
        return self.url.partition("://")[2].rpartition("@")[2].partition("?")[0]


@dataclass(frozen=True, slots=True)
class Dialer:
    """Makes connections of one kind."""

    address: Address
    timeout_seconds: float
    """What a call on them may take."""
    prepare: Callable[[Connection], Awaitable[None]]
    """Makes sure of what all calls need. Raises `ConfigError`."""
    session: Mapping[str, str]
    """More settings of the server's for each."""

    async def dial(self) -> Connection:
        """Return a connection that can be asked at once.

        Raises:
            StoreUnavailable: There is none to be had now.
            ConfigError: What no waiting mends.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._dial()
        except TimeoutError as error:
            raise StoreUnavailable(f"{self.address} did not answer in time") from error
        except ConfigError:
            raise
        except _UNMENDED as error:
            raise ConfigError(f"stores.postgres: {self.address}: {error}") from error
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise StoreUnavailable(f"{self.address}: {error}") from error

    async def _dial(self) -> Connection:
        connection = await asyncpg.connect(
            self.address.url,
            password=self.address.password,
            timeout=CONNECT_SECONDS,
            server_settings={"application_name": "stepwell", **self.session},
        )
        try:
            await self.prepare(connection)
            milliseconds = max(1, int(self.timeout_seconds * _SPEAKS_IN_TIME * 1000))
            await connection.execute(f"SET statement_timeout = {milliseconds}")
        except BaseException:
            connection.terminate()
            raise
        return connection
