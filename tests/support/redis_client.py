"""What tests of the Redis store's connections share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepwell.core.errors import StoreUnavailable
from stepwell.stores.breaker import Closed, Open, State
from stepwell.stores.redis.address import HostPort
from stepwell.stores.redis.link import Late
from stepwell.stores.redis.servers import Servers
from support.raw_server import Handler, serving
from support.redis_servers import PATIENCE_SECONDS

OpenServers = Callable[..., Awaitable[Servers]]
"""Takes a URL, and settings by name."""


class Changes:
    """Keeps the states that were told, and wakes who waits for one."""

    def __init__(self) -> None:
        self.seen: list[State] = []
        self._more = asyncio.Event()

    def __call__(self, state: State) -> None:
        self.seen.append(state)
        self._more.set()

    @property
    def reasons(self) -> list[str | None]:
        """Why it opened; ``None`` where it closed."""
        return [state.reason if isinstance(state, Open) else None for state in self.seen]

    async def wait_for(self, kind: type[State]) -> State:
        """Return the last state, once it is of this kind."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.seen or not isinstance(self.seen[-1], kind):
                self._more.clear()
                await self._more.wait()
        return self.seen[-1]

    async def opened(self) -> str:
        """Return why it is open, once it is."""
        state = await self.wait_for(Open)
        assert isinstance(state, Open)
        return state.reason

    async def closed(self) -> None:
        """Return once it is closed."""
        await self.wait_for(Closed)


def answer_at_once(asking: Coroutine[Any, Any, object]) -> str:
    """Return why a call fails that must not wait for anything."""
    with pytest.raises(StoreUnavailable) as caught:
        asking.send(None)
    asking.close()
    return str(caught.value)


async def fail_until_open(changes: Changes, ask: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Ask a silent server until it is left alone: at most three are late, none afterwards.

    While a reply is late, others fail without waiting behind it.
    """
    late = 0
    while not changes.seen:
        with pytest.raises(StoreUnavailable) as caught:
            await ask()
        late += isinstance(caught.value, Late)
        await asyncio.sleep(0)
    assert late <= 3
    answer_at_once(ask())


@asynccontextmanager
async def pretender(handler: Handler) -> AsyncIterator[HostPort]:
    """Serve each connection by ``handler``, which then closes it; yield where."""
    async with serving(handler) as port:
        yield HostPort("127.0.0.1", port)
