"""What can happen to Redis, on real servers: each scene sets them up, breaks them, mends them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from support.redis_cluster import RedisCluster, redis_cluster
from support.redis_sentinels import SERVICE, redis_watched
from support.redis_servers import RedisServer, redis_servers
from wire import laid

from stepwell.stores.redis.layout import Layout
from stepwell.stores.redis.slots import slot_of

_MEMORY = ("maxmemory 256mb", "maxmemory-policy volatile-lru")
_KEPT = ("appendonly yes", "appendfsync everysec")


async def _nothing() -> None:
    """Do nothing: it mends itself."""


@dataclass(frozen=True)
class Scene:
    """Servers that are well, and what can be done to them."""

    url: str
    begin: Callable[[], Awaitable[None]]
    end: Callable[[], Awaitable[None]] = _nothing
    """`_nothing`: it mends itself."""

    @property
    def mends_itself(self) -> bool:
        """Whether nobody need do anything."""
        return self.end is _nothing


MakeScene = Callable[[], AbstractAsyncContextManager[Scene]]


@asynccontextmanager
async def _lone(*lines: str) -> AsyncIterator[RedisServer]:
    with redis_servers() as launcher:
        yield await asyncio.to_thread(launcher.start, *_MEMORY, *lines)


@asynccontextmanager
async def _paused() -> AsyncIterator[Scene]:
    async with _lone() as server:
        yield Scene(server.url, _later(server.pause), _later(server.resume))


@asynccontextmanager
async def _killed(*lines: str) -> AsyncIterator[Scene]:
    async with _lone(*lines) as server:
        yield Scene(server.url, _later(server.kill), _later(server.start))


@asynccontextmanager
async def _full() -> AsyncIterator[Scene]:
    async with _lone("maxmemory-policy noeviction") as server:
        limit = partial(server.ask, "CONFIG", "SET", "maxmemory")
        yield Scene(server.url, _later(limit, "1mb"), _later(limit, "256mb"))


@asynccontextmanager
async def _refusing() -> AsyncIterator[Scene]:
    async with _lone() as server, laid(server.port) as wire:
        yield Scene(f"redis://127.0.0.1:{wire.port}", wire.close, wire.open)


@asynccontextmanager
async def _slow(milliseconds: int) -> AsyncIterator[Scene]:
    async with _lone() as server, laid(server.port) as wire:

        async def set_delay(seconds: float) -> None:
            wire.delay_seconds = seconds

        yield Scene(
            f"redis://127.0.0.1:{wire.port}",
            partial(set_delay, milliseconds / 2 / 1000),
            partial(set_delay, 0.0),
        )


@asynccontextmanager
async def _sentinels() -> AsyncIterator[Scene]:
    with redis_watched(sentinels=3, server_lines=_MEMORY) as watched:
        await asyncio.to_thread(watched.wait_until_whole)
        sentinels = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in watched.sentinels)
        url = f"redis+sentinel://{sentinels}/{SERVICE}"
        yield Scene(url, _later(watched.master().kill))


@asynccontextmanager
async def _cluster(make: Callable[[RedisCluster], Scene]) -> AsyncIterator[Scene]:
    with redis_cluster() as cluster:
        for server in cluster.servers:
            for line in _MEMORY:
                await asyncio.to_thread(server.ask, "CONFIG", "SET", *line.split())
        yield make(cluster)


def _feed_owner(cluster: RedisCluster) -> RedisServer:
    return cluster.owner(slot_of(Layout("stepwell").meta))


def _other_owner(cluster: RedisCluster) -> RedisServer:
    feed = _feed_owner(cluster)
    return next(server for server in cluster.masters() if server is not feed)


def _fails_over(cluster: RedisCluster) -> Scene:
    return Scene(cluster.url, _later(_feed_owner(cluster).kill))


def _loses(owner: Callable[[RedisCluster], RedisServer], cluster: RedisCluster) -> Scene:
    """Lose a master and its replica, so that nobody has their slots."""
    master = owner(cluster)
    replica = next(
        server
        for server in cluster.servers
        if server.info("replication").get("master_port") == str(master.port)
    )

    def kill() -> None:
        replica.kill()
        master.kill()

    def start() -> None:
        master.start()
        replica.start()

    return Scene(cluster.url, _later(kill), _later(start))


def _migrates(cluster: RedisCluster) -> Scene:
    """Move slots with all their keys from one master to the next, again and again."""
    is_over = threading.Event()
    first = slot_of(Layout("stepwell").meta)  # the feed goes along

    def move() -> None:
        slots = [(first + 7 * number) % 16_384 for number in range(200)]
        for turn, slot in enumerate(slots * 1_000):
            if is_over.is_set():
                return
            masters = cluster.masters()
            source = cluster.owner(slot)
            targets = [server for server in masters if server is not source]
            target = targets[turn % len(targets)]
            cluster.start_move(slot, target)
            cluster.move_keys(slot, target)
            cluster.end_move(slot, target)

    moving: list[asyncio.Future[None]] = []

    async def begin() -> None:
        moving.append(asyncio.get_running_loop().run_in_executor(None, move))

    async def end() -> None:
        is_over.set()
        await moving[0]

    return Scene(cluster.url, begin, end)


def _later(call: Callable[..., object], *arguments: object) -> Callable[[], Awaitable[None]]:
    """Return what makes a call that blocks, off the event loop."""

    async def make_it() -> None:
        await asyncio.to_thread(call, *arguments)

    return make_it


SCENES: Mapping[str, MakeScene] = {
    "paused": _paused,
    "killed, started empty": _killed,
    "killed, started with its entries": partial(_killed, *_KEPT),
    "refusing connections": _refusing,
    **{f"slow, {ms} ms": partial(_slow, ms) for ms in (10, 40, 60, 200)},
    "full, noeviction": _full,
    "failing over, 3 sentinels": _sentinels,
    "failing over, cluster": partial(_cluster, _fails_over),
    "cluster node lost": partial(_cluster, partial(_loses, _other_owner)),
    "cluster node lost that has the feed": partial(_cluster, partial(_loses, _feed_owner)),
    "slots migrating": partial(_cluster, _migrates),
}
