"""What asking a model server costs: our own client, aiohttp, and two floors to compare with.

    python benchmarks/upstream_client.py [--smoke] [--json OUT]

All ask the same model server (``benchmarks/peers.py``) the same 1 KB question on kept connections,
and get 2 KB of JSON, or a stream of 67 events that are sent one by one; how many of them are found
in one read is up to the kernel. ``sockets`` are blocking ones that count a reply's bytes and do
nothing else; with several connections, all send before any reads. ``loop`` does as little on an
event loop: a protocol and one future a read. ``direct`` and ``aiohttp`` are all of `HttpUpstream`:
fields chosen and checked, time limits, retries, errors, events.

CPU is user and system time of this process, which has the first CPU to itself; the server has the
others. Rounds go over all clients in turn; each figure is the median of its rounds, and "above" the
median of the differences within each round.
"""

import asyncio
import os
import socket
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from load import chat_body, fast_loop, http_request, is_whole, prompt
from peers import EVENTS, start_upstream
from processes import CPUS, Server, exit_on_sigterm, versions
from report import parse_arguments, print_table, write

from stepwell.core.events import Event
from stepwell.core.names import Endpoint
from stepwell.core.ports import Call
from stepwell.engines.aiohttp_transport import AiohttpTransport
from stepwell.engines.http import HttpUpstream
from stepwell.engines.http_transport import OpenTransport

FLOOR = "sockets"
QUESTION = prompt(0, 1_024)
CONNECTIONS = (1, 32)


@dataclass(frozen=True)
class Case:
    """One kind of call, and how many make a round."""

    form: str
    connections: int
    calls: int
    reply_bytes: int

    @property
    def body(self) -> bytes:
        """Return the request's body."""
        return body_of(self.form)


def body_of(form: str) -> bytes:
    """Return the body of a request."""
    return chat_body(QUESTION, stream=form == "stream")


def size_of_reply(server: Server, form: str) -> int:
    """Return how long a reply is. All of a form are the same."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(http_request(body_of(form)))
        received = bytearray()
        while not is_whole(received):
            received += connection.recv(65_536)
    return len(received)


class Client(Protocol):
    """Something that asks."""

    name: str

    def ask(self, case: Case) -> None:
        """Make the calls of a case."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class Sockets:
    """Blocking sockets."""

    name = FLOOR

    def __init__(self, server: Server) -> None:
        self._sockets = [
            socket.create_connection(("127.0.0.1", server.port)) for _ in range(max(CONNECTIONS))
        ]

    def ask(self, case: Case) -> None:
        """Make the calls, as many at once as there are connections."""
        request = http_request(case.body)
        connections = self._sockets[: case.connections]
        for _ in range(case.calls // case.connections):
            for connection in connections:
                connection.sendall(request)
            for connection in connections:
                missing = case.reply_bytes
                while missing:
                    missing -= len(connection.recv(65_536))

    def close(self) -> None:
        """Close all connections."""
        for connection in self._sockets:
            connection.close()


class Reading(asyncio.Protocol):
    """A connection on an event loop that counts bytes, and wakes who waits for more."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._missing = 0
        self._more: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def ask(self, request: bytes, reply_bytes: int) -> None:
        """Send a request and read its reply."""
        assert self._transport is not None
        self._missing = reply_bytes
        self._transport.write(request)
        while self._missing:
            self._more = asyncio.get_running_loop().create_future()
            await self._more

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


class Protocols:
    """Connections that do as little as can be done on an event loop."""

    def __init__(self, server: Server, loop: type[asyncio.AbstractEventLoop] | None) -> None:
        self.name = f"loop, {_name_of(loop)}"
        self._runner = asyncio.Runner(loop_factory=loop)
        self._connections = self._runner.run(self._connect(server.port))

    def ask(self, case: Case) -> None:
        """Make the calls, as many at once as there are connections."""
        self._runner.run(self._ask(case))

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()
        self._runner.run(asyncio.sleep(0))
        self._runner.close()

    async def _connect(self, port: int) -> list[Reading]:
        loop = asyncio.get_running_loop()
        return [
            (await loop.create_connection(Reading, "127.0.0.1", port))[1]
            for _ in range(max(CONNECTIONS))
        ]

    async def _ask(self, case: Case) -> None:
        request = http_request(case.body)

        async def in_turn(connection: Reading) -> None:
            for _ in range(case.calls // case.connections):
                await connection.ask(request, case.reply_bytes)

        await asyncio.gather(*map(in_turn, self._connections[: case.connections]))


class Upstream:
    """`HttpUpstream` on an event loop of its own."""

    def __init__(
        self,
        name: str,
        server: Server,
        open_transport: OpenTransport | None,
        loop: type[asyncio.AbstractEventLoop] | None,
    ) -> None:
        self.name = f"{name}, {_name_of(loop)}"
        self._runner = asyncio.Runner(loop_factory=loop)
        self._upstream = HttpUpstream(
            name,
            f"{server.url}/v1",
            identity="",
            events=self,
            api_key="sk-benchmark",
            open_transport=open_transport,
        )

    def emit(self, event: Event) -> None:
        """Stop: nothing is to fail.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(event)

    def ask(self, case: Case) -> None:
        """Make the calls, as many at once as there are connections."""
        self._runner.run(self._ask(case))

    def close(self) -> None:
        """Close all connections."""
        self._runner.run(self._upstream.aclose())
        self._runner.close()

    async def _ask(self, case: Case) -> None:
        call = Call(Endpoint.CHAT, case.body, ())

        async def in_turn() -> None:
            for _ in range(case.calls // case.connections):
                reply = await self._upstream.send(call)
                async for _ in reply.chunks():
                    pass
                await reply.aclose()

        await asyncio.gather(*(in_turn() for _ in range(case.connections)))


def _name_of(loop: type[asyncio.AbstractEventLoop] | None) -> str:
    return "asyncio" if loop is None else "uvloop"


def start_clients(stack: ExitStack, server: Server) -> list[Client]:
    """Return all clients there are."""
    loops = (None, fast_loop()) if fast_loop() else (None,)
    clients: list[Client] = [Sockets(server)]
    clients += [Protocols(server, loop) for loop in loops]
    clients += [Upstream("direct", server, None, loop) for loop in loops]
    clients += [Upstream("aiohttp", server, AiohttpTransport, loop) for loop in loops]
    for client in clients:
        stack.callback(client.close)
    return clients


Figures = Mapping[Case, Mapping[str, Sequence[float]]]
"""CPU time of a call in microseconds, by case and client, for each round."""


def measure(clients: Sequence[Client], cases: Sequence[Case], rounds: int) -> Figures:
    """Measure all clients in turn."""
    figures: dict[Case, dict[str, list[float]]] = {case: defaultdict(list) for case in cases}
    for turn in range(-1, rounds):  # the first warms up
        for case in cases:
            for client in clients:
                before = time.process_time()
                client.ask(case)
                spent = time.process_time() - before
                if turn >= 0:
                    figures[case][client.name].append(spent / case.calls * 1e6)
    return figures


def table(figures: Figures) -> Iterator[dict[str, object]]:
    """Yield a row for each case and client."""
    for case, by_client in figures.items():
        for name, spent in by_client.items():
            above = statistics.median(
                ours - floor for ours, floor in zip(spent, by_client[FLOOR], strict=True)
            )
            row: dict[str, object] = {
                "case": case.form,
                "c": case.connections,
                "client": name,
                "cpu us": round(statistics.median(spent), 1),
                "above": round(above, 1),
            }
            if case.form == "stream":
                row["an event"] = round(statistics.median(spent) / EVENTS, 2)
            yield row


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "")
    exit_on_sigterm()
    rounds, calls = (1, 64) if arguments.smoke else (9, 1_600)
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        server = stack.enter_context(start_upstream(Path(directory)))
        cases = [
            Case(form, connections, count, size_of_reply(server, form))
            for form, count in (("json", calls), ("stream", calls // 2))
            for connections in CONNECTIONS
        ]
        os.sched_setaffinity(0, CPUS[:1])
        rows = list(table(measure(start_clients(stack, server), cases, rounds)))
    print_table(rows, ("case", "c", "client", "cpu us", "above", "an event"))
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "calls": calls,
        "versions": versions("aiohttp", "httptools", "uvloop"),
        "clients": rows,
    }
    write("upstream_client", results, arguments.json)


if __name__ == "__main__":
    main()
