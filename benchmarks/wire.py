"""A stretch of network between a client and a server, which can be made slow, or closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_PIECE_BYTES = 1 << 16


class Wire:
    """Passes bytes on to a port of this machine, late. One event loop.

    What is under way when ``delay_seconds`` changes keeps the time it was to arrive at, so that
    nothing overtakes.
    """

    def __init__(self, port: int) -> None:
        """Lead to ``port``; `lay` lays it."""
        self.delay_seconds = 0.0
        """For each direction: an answer comes twice that later."""
        self.port = 0
        self._target = port
        self._server: asyncio.Server | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take connections, on the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections, and break those there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connect(reader, writer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target)
            ends.append(there[1])
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, there[1]))
                both.create_task(self._pass_on(there[0], writer))
        except* OSError:
            pass  # one side has gone
        finally:
            for end in ends:
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        arrives_at = 0.0
        while data := await reader.read(_PIECE_BYTES):
            arrives_at = max(arrives_at, loop.time() + self.delay_seconds)
            loop.call_at(arrives_at, _deliver, writer, data)
        raise ConnectionResetError  # and so the other direction ends too


def _deliver(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)


@asynccontextmanager
async def laid(port: int) -> AsyncIterator[Wire]:
    """Lend a wire to a port."""
    wire = Wire(port)
    await wire.open()
    try:
        yield wire
    finally:
        await wire.close()
