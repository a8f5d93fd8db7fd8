"""One server, which holds all keys."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from stepwell.stores.breaker import State
from stepwell.stores.redis.address import Single, show_address
from stepwell.stores.redis.dialing import Dialer, expect_lone_master
from stepwell.stores.redis.link import Link, Reply, Word
from stepwell.stores.redis.node import Node


class LoneServer:
    """`Servers` of which there is one at a time, however it is found."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Awaitable[Link]],
        *,
        timeout_seconds: float,
        on_change: Callable[[State], None],
    ) -> None:
        self._node = Node(name, connect, timeout_seconds=timeout_seconds, on_change=on_change)

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

    def together(self, keys: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        """As `Servers.together`: all of them."""
        return (keys,)

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


class SingleServer(LoneServer):
    """One server that never moves."""

    def __init__(
        self,
        address: Single,
        dialer: Dialer,
        *,
        timeout_seconds: float,
        on_change: Callable[[State], None],
    ) -> None:
        super().__init__(
            show_address(address),
            lambda: dialer.dial(address.endpoint, expect_lone_master),
            timeout_seconds=timeout_seconds,
            on_change=on_change,
        )
