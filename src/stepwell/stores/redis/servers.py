"""All servers of a store, as one: whichever has a key is asked for it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, assert_never

from stepwell.stores.breaker import State
from stepwell.stores.redis.address import (
    Address,
    Cluster,
    Credentials,
    Sentinel,
    Single,
    merge_credentials,
)
from stepwell.stores.redis.cluster import ClusterServers
from stepwell.stores.redis.dialing import Dialer
from stepwell.stores.redis.link import Link, Reply, Word
from stepwell.stores.redis.node import Node
from stepwell.stores.redis.sentinel import SentinelServer
from stepwell.stores.redis.single import SingleServer
from stepwell.stores.redis.tls import Tls, make_context

TIMEOUT_SECONDS = 0.05
"""What a call may take."""

CONNECT_TIMEOUT_SECONDS = 1.0
"""What a connection may take to be ready."""


class Servers(Protocol):
    """The servers of a store. One event loop; safe for many tasks.

    A server that fails is left alone until it is seen to work again, which is tried in the
    background: no call ever waits for a connection.
    """

    @property
    def state(self) -> State:
        """`Closed` if every key can be asked for; else `Open`, with the reason."""
        ...

    def ask(
        self, key: bytes, *words: Word, timeout_seconds: float | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """Return the reply of the server that has ``key`` to a command.

        Costs some 10 us of CPU. If it is cancelled or late, the server may still do it.

        Args:
            key: All keys in ``words`` must be in its slot.
            words: The command.
            timeout_seconds: For all of it, redirections too; by default that of the servers.

        Raises:
            StoreUnavailable: The server fails, or did not answer in time.
            Refused: It answered with an error. Its ``code`` says which.
            StoreFull: Too much is under way.
        """
        ...

    def together(self, keys: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        """Return ``keys`` in groups of which each may be in one command."""
        ...

    def masters(self) -> Sequence[Node]:
        """Return the servers that have all keys between them, for what has no key: ``SCAN``."""
        ...

    async def dial(self, key: bytes) -> Link:
        """Return a connection of the caller's own to the server that has ``key``, to be closed.

        For what waits long at the server, and would make all calls behind it wait.

        Raises:
            StoreError: There is none to be had now.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections but those dialled; calls under way fail. May be called twice."""
        ...


async def open_servers(
    address: Address,
    *,
    credentials: Credentials,
    tls: Tls,
    on_change: Callable[[State], None],
    timeout_seconds: float = TIMEOUT_SECONDS,
    connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
    sentinel_credentials: Credentials = Credentials(),  # noqa: B008  (it cannot change)
) -> Servers:
    """Return servers that have been tried once: some may be down, which is no error.

    Takes ``connect_timeout_seconds``, or a few of them, if servers are silent.

    Args:
        address: Where they are.
        credentials: What the address does not say already.
        tls: Counts only if the address is of encrypted servers.
        on_change: Called with the new state each time it changes: for a cluster, each time other
            servers than before are down. Also if some are down at the start. Must not raise.
        timeout_seconds: What a call may take.
        connect_timeout_seconds: What a connection may take to be ready.
        sentinel_credentials: What sentinels want, if there are any; most want none.

    Raises:
        ConfigError: What no waiting mends: files of TLS, a db that does not exist, a server that
            is of another kind than the address says.
    """
    dialer = Dialer(
        await asyncio.to_thread(make_context, tls) if address.is_encrypted else None,
        merge_credentials(address, credentials),
        0 if isinstance(address, Cluster) else address.db,
        connect_timeout_seconds,
        sentinel_credentials,
    )
    servers = _make(address, dialer, timeout_seconds, on_change)
    try:
        await servers.start()
    except BaseException:
        await servers.aclose()
        raise
    return servers


def _make(
    address: Address,
    dialer: Dialer,
    timeout_seconds: float,
    on_change: Callable[[State], None],
) -> SingleServer | SentinelServer | ClusterServers:
    match address:
        case Single():
            return SingleServer(
                address, dialer, timeout_seconds=timeout_seconds, on_change=on_change
            )
        case Sentinel():
            return SentinelServer(
                address, dialer, timeout_seconds=timeout_seconds, on_change=on_change
            )
        case Cluster():
            return ClusterServers(
                address, dialer, timeout_seconds=timeout_seconds, on_change=on_change
            )
        case _:
            assert_never(address)
