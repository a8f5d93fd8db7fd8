"""One server, which holds all keys."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stepwell.stores.redis.address import Single, show_address
from stepwell.stores.redis.breaker import State
from stepwell.stores.redis.dialing import Dialer, expect_lone_master
from stepwell.stores.redis.link import Link, Reply, Word
from stepwell.stores.redis.node import Node


class SingleServer:
    """`Servers` of which there is one."""

    def __init__(
        self,
        address: Single,
        dialer: Dialer,
        *,
        timeout_seconds: float,
        on_change: Callable[[State], None],
    ) -> None:
        self._address = address
        self._dialer = dialer
        self._node = Node(
            show_address(address),
            self._connect,
            timeout_seconds=timeout_seconds,
            on_change=on_change,
        )

    async def start(self) -> None:
        """Connect, or go on trying in the background.

        Raises:
            ConfigError: What no waiting mends.
        """
        await self._node.start()

    @property
    def state(self) -> State:
        """As `Servers.state`."""
        return self._node.state

    def ask(
        self, key: bytes, *words: Word, timeout_seconds: float | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """As `Servers.ask`."""
        del key
        return self._node.ask(*words, timeout_seconds=timeout_seconds)

    def masters(self) -> Sequence[Node]:
        """As `Servers.masters`."""
        return (self._node,)

    async def dial(self, key: bytes) -> Link:
        """As `Servers.dial`."""
        del key
        return await self._node.dial()

    async def aclose(self) -> None:
        """As `Servers.aclose`."""
        await self._node.aclose()

    async def _connect(self) -> Link:
        return await self._dialer.dial(self._address.endpoint, expect_lone_master)
