"""A model server that starts at the first call."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from stepwell.core.errors import ConfigError, UpstreamUnreachable
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call, Headers
from stepwell.engines.late import LateUpstream

CALL = Call(Endpoint.CHAT, b"{}", ())


class Reply:
    status = 200
    headers: Headers = ()

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"{}"

    async def aclose(self) -> None:
        """Do nothing."""


class Server:
    """Counts what happens to it."""

    name, identity = "late", "who"

    def __init__(self) -> None:
        self.starts = self.calls = self.closed = 0
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.fails = False

    async def start(self) -> "Server":
        self.starts += 1
        await self.may_start.wait()
        if self.fails:
            raise ConfigError("it is not installed")
        return self

    async def send(self, call: Call) -> Reply:
        self.calls += 1
        return Reply()

    async def forward(
        self, method: str, path: str, query: str, headers: Headers, body: bytes
    ) -> Reply:
        self.calls += 1
        return Reply()

    async def aclose(self) -> None:
        self.closed += 1


def late(server: Server) -> LateUpstream:
    return LateUpstream("late", "who", server.start)


async def test_it_starts_once_and_stops_once() -> None:
    server = Server()
    upstream = late(server)
    assert (upstream.name, upstream.identity, server.starts) == ("late", "who", 0)
    await asyncio.gather(upstream.send(CALL), upstream.forward("GET", "models", "", (), b""))
    assert (server.starts, server.calls) == (1, 2)
    await upstream.aclose()
    await upstream.aclose()
    assert server.closed == 1


async def test_what_was_never_asked_never_starts() -> None:
    server = Server()
    await late(server).aclose()
    assert (server.starts, server.closed) == (0, 0)


async def test_one_who_leaves_does_not_stop_the_start() -> None:
    server = Server()
    server.may_start.clear()
    upstream = late(server)
    leaving, staying = (asyncio.create_task(upstream.send(CALL)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    server.may_start.set()
    assert (await staying).status == 200
    assert leaving.cancelled()
    assert server.starts == 1


async def test_closed_while_it_starts() -> None:
    """What was started is stopped."""
    server = Server()
    server.may_start.clear()
    upstream = late(server)
    asking = asyncio.create_task(upstream.send(CALL))
    await asyncio.sleep(0)
    asking.cancel()
    closing = asyncio.create_task(upstream.aclose())
    await asyncio.sleep(0)
    server.may_start.set()
    await closing
    assert server.closed == 1


async def test_a_start_that_fails_is_tried_again() -> None:
    server = Server()
    server.fails = True
    upstream = late(server)
    with pytest.raises(UpstreamUnreachable, match="it is not installed"):
        await upstream.send(CALL)
    server.fails = False
    assert (await upstream.send(CALL)).status == 200
    assert server.starts == 2
    await upstream.aclose()
    assert server.closed == 1
