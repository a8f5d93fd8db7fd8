"""A connection that one user has to itself: to wait on, or to know that a word was taken down."""

import asyncio
import re
from dataclasses import dataclass
from typing import Protocol

from stepwell.core.errors import StoreUnavailable
from stepwell.stores.redis.link import Refused, Reply, Word
from stepwell.stores.redis.replies import integer, string
from stepwell.stores.redis.scripts import Asked, Script

PATIENCE_SECONDS = 2.0
"""For what is not on a request's way."""

_REPLICA_MILLISECONDS = 1_000


class Line(Protocol):
    """A connection; `stepwell.stores.redis.link.Link`."""

    def ask(self, *words: Word, timeout_seconds: float) -> "asyncio.Future[Reply]":
        """Send a command."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


class Dialled(Protocol):
    """The part of the servers this needs."""

    async def dial(self, key: bytes) -> Line:
        """Connect anew to the server that has ``key``."""
        ...


class Served(Asked, Dialled, Protocol):
    """Both."""


@dataclass(frozen=True, slots=True)
class Direct:
    """A line as scripts ask it: whatever the key, there is one server."""

    line: Line

    async def ask(self, key: bytes, *words: Word, timeout_seconds: float | None = None) -> Reply:
        """Send a command over the line."""
        del key
        return await self.line.ask(*words, timeout_seconds=timeout_seconds or PATIENCE_SECONDS)


async def run_durably(
    servers: Dialled, script: Script, keys: tuple[bytes, ...], *arguments: Word
) -> Reply:
    """Run a script, and return when a replica has what it did too, if the server has any.

    Costs a connection.

    Raises:
        StoreUnavailable: It may have been done, but could be forgotten again by a fail-over.
        Refused: The server, or the script, said no.
    """
    line = await servers.dial(keys[0])
    try:
        reply = await script.run(Direct(line), keys, *arguments)
        if re.search(rb"connected_slaves:[1-9]", await replication(line)):
            confirmed = await line.ask(
                *("WAIT", 1, _REPLICA_MILLISECONDS),
                timeout_seconds=_REPLICA_MILLISECONDS / 1000 + PATIENCE_SECONDS,
            )
            if integer(confirmed) == 0:
                raise StoreUnavailable("it was done, but no replica says that it knows; ask again")
        return reply
    finally:
        line.close()


async def replication(line: Line) -> bytes:
    """Return what a server says of its replicas; nothing where it may not be asked."""
    try:
        return string(await line.ask("INFO", "replication", timeout_seconds=PATIENCE_SECONDS))
    except Refused:
        return b""
