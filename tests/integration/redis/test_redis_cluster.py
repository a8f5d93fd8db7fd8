"""A real cluster: keys find their masters, whatever becomes of those."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.redis_client import Changes, OpenServers, answer_at_once, fail_until_open
from support.redis_cluster import SLOTS, RedisCluster, redis_cluster
from support.redis_servers import RedisServer, free_port, wait_until
from support.redis_servers import Servers as Launcher

from stepwell.core.errors import ConfigError
from stepwell.stores.breaker import Closed, Open
from stepwell.stores.redis.link import Refused
from stepwell.stores.redis.servers import TIMEOUT_SECONDS, Servers
from stepwell.stores.redis.slots import slot_of

KEYS = [b"key %d" % number for number in range(300)]


@pytest.fixture(scope="module")
def whole_cluster() -> Iterator[RedisCluster]:
    """One for all tests; what they break is whole again after a while."""
    with redis_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(whole_cluster: RedisCluster) -> RedisCluster:
    """A cluster without keys of which all is well."""
    whole_cluster.wait_until_whole()
    for server in whole_cluster.masters():
        for key in server.ask("SCAN", 0, "COUNT", 1_000_000)[1]:
            server.ask("DEL", key)
    return whole_cluster


def other_master(cluster: RedisCluster, owner: RedisServer) -> RedisServer:
    return next(master for master in cluster.masters() if master is not owner)


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of something that waits."""
    return await asyncio.to_thread(work, *arguments)


async def test_keys_go_to_their_masters(cluster: RedisCluster, open_at: OpenServers) -> None:
    """From one node's address to three masters that share the keys."""
    servers = await open_at(cluster.url)
    assert servers.state == Closed()
    await asyncio.gather(*(servers.ask(key, "SET", key, key) for key in KEYS))
    assert await asyncio.gather(*(servers.ask(key, "GET", key) for key in KEYS)) == KEYS
    counts = [await master.ask("DBSIZE") for master in servers.masters()]
    assert (len(counts), sum(map(int, counts))) == (3, len(KEYS))  # type: ignore[arg-type]
    assert min(map(int, counts)) > 50  # type: ignore[arg-type]


async def test_slots_are_those_of_the_server(cluster: RedisCluster) -> None:
    """Else every call would be sent on."""
    for key in [*KEYS, b"{tag}key", b"a{tag}", b"{}x", b"{", b"}{", b"{{tag}}", b"\x00{\xff}"]:
        assert cluster.servers[0].ask("CLUSTER", "KEYSLOT", key) == slot_of(key)


async def test_seeds_that_are_gone(cluster: RedisCluster, open_at: OpenServers) -> None:
    """One that answers is enough."""
    place = cluster.url.removeprefix("redis+cluster://")
    servers = await open_at(f"redis+cluster://127.0.0.1:{free_port()},{place}")
    assert servers.state == Closed()


async def test_slot_that_has_moved(
    cluster: RedisCluster, open_at: OpenServers, changes: Changes
) -> None:
    """The first call is sent on; a connection of one's own is made to the new master."""
    key = b"moved"
    slot = slot_of(key)
    servers = await open_at(cluster.url)
    await servers.ask(key, "RPUSH", key, "item")
    target = other_master(cluster, cluster.owner(slot))
    cluster.start_move(slot, target)
    cluster.move_keys(slot, target)
    cluster.end_move(slot, target)
    link = await servers.dial(key)
    assert await link.ask("BLPOP", key, 0, timeout_seconds=30) == [key, b"item"]
    link.close()
    await link.wait_closed()
    assert await servers.ask(key, "RPUSH", key, "item") == 1
    assert target.ask("LLEN", key) == 1
    assert changes.seen == []


async def test_slot_that_is_moving(cluster: RedisCluster, open_at: OpenServers) -> None:
    """Keys that are still there, have moved already, or are new: each is found."""
    old, gone, new = b"{moving}old", b"{moving}gone", b"{moving}new"
    slot = slot_of(old)
    servers = await open_at(cluster.url)
    for key in (old, gone):
        await servers.ask(key, "SET", key, key)
    target = other_master(cluster, cluster.owner(slot))
    cluster.start_move(slot, target)
    cluster.move_keys(slot, target, gone)
    assert await servers.ask(old, "GET", old) == old
    assert await servers.ask(gone, "GET", gone) == gone
    assert await servers.ask(new, "SET", new, new) == b"OK"
    with pytest.raises(Refused, match="TRYAGAIN"):
        await servers.ask(old, "MGET", old, gone)
    waiting = [asyncio.create_task(servers.ask(gone, "GET", gone)) for _ in range(100)]
    await in_thread(cluster.move_keys, slot, target)
    await in_thread(cluster.end_move, slot, target)
    assert await asyncio.gather(*waiting) == [gone] * 100
    assert await servers.ask(old, "MGET", old, gone, new) == [old, gone, new]


async def test_slots_move_under_load(
    cluster: RedisCluster, open_at: OpenServers, changes: Changes
) -> None:
    """No call fails, and none is answered wrongly."""
    servers = await open_at(cluster.url)
    tag = next(key for key in KEYS if cluster.owner(slot_of(key)) is cluster.masters()[0])
    keys = [b"{%b}%d" % (tag, number) for number in range(100)]
    async with load(servers, keys) as counts:
        slot = slot_of(tag)
        for _ in range(3):
            owner = await in_thread(cluster.owner, slot)
            target = await in_thread(other_master, cluster, owner)
            await in_thread(cluster.start_move, slot, target)
            await in_thread(cluster.move_keys, slot, target)
            await in_thread(cluster.end_move, slot, target)
    assert sum(counts.values()) > 100
    assert changes.seen == []


@asynccontextmanager
async def load(servers: Servers, keys: list[bytes]) -> AsyncIterator[dict[bytes, int]]:
    """Count up under each key until the block ends; each reply must be the count."""
    counts = dict.fromkeys(keys, 0)
    is_over = asyncio.Event()

    async def count_up(key: bytes) -> None:
        while not is_over.is_set():
            counts[key] += 1
            assert await servers.ask(key, "INCR", key) == counts[key]

    counting = [asyncio.create_task(count_up(key)) for key in keys]
    try:
        yield counts
    finally:
        is_over.set()
        await asyncio.gather(*counting)


@pytest.mark.slow
async def test_node_that_is_killed(
    cluster: RedisCluster, open_at: OpenServers, changes: Changes
) -> None:
    """Its keys fail, and no others, until its replica has its slots."""
    servers = await open_at(cluster.url)
    victim = cluster.masters()[0]
    lost, kept = split(cluster, victim)
    await in_thread(victim.kill)
    assert f"127.0.0.1:{victim.port}" in await changes.opened()
    answer_at_once(servers.ask(lost, "PING"))
    assert await servers.ask(kept, "SET", kept, "value") == b"OK"
    await changes.closed()
    assert await servers.ask(lost, "SET", lost, "value") == b"OK"
    assert f"127.0.0.1:{victim.port}" not in names_of(servers)
    assert len(changes.seen) == 2
    await in_thread(victim.start)
    await in_thread(cluster.wait_until_whole)
    assert await servers.ask(lost, "GET", lost) == b"value"
    assert len(changes.seen) == 2


@pytest.mark.slow
async def test_node_that_is_paused(
    cluster: RedisCluster, open_at: OpenServers, changes: Changes
) -> None:
    """As if it were killed; when it goes on, it is a replica, and nobody asks it."""
    servers = await open_at(cluster.url, timeout_seconds=TIMEOUT_SECONDS)
    victim = cluster.masters()[0]
    lost, kept = split(cluster, victim)
    victim.pause()
    await fail_until_open(changes, lambda: servers.ask(lost, "PING"))
    assert await servers.ask(kept, "SET", kept, "value", timeout_seconds=30) == b"OK"
    await changes.closed()
    assert await servers.ask(lost, "SET", lost, "value", timeout_seconds=30) == b"OK"
    victim.resume()
    await in_thread(cluster.wait_until_whole)
    assert await servers.ask(lost, "GET", lost, timeout_seconds=30) == b"value"


def split(cluster: RedisCluster, master: RedisServer) -> tuple[bytes, bytes]:
    """Return a key that a master has, and one it has not."""
    owned = {cluster.owner(slot_of(key)) is master: key for key in KEYS[:50]}
    return owned[True], owned[False]


@pytest.mark.slow
async def test_failover_on_request(
    cluster: RedisCluster, open_at: OpenServers, changes: Changes
) -> None:
    """An operator's: master and replica change places, and calls follow."""
    servers = await open_at(cluster.url)
    before = names_of(servers)
    replica = next(server for server in cluster.servers if server not in cluster.masters())
    keys = KEYS[:100]
    async with load(servers, keys):
        await in_thread(replica.ask, "CLUSTER", "FAILOVER")
        await in_thread(cluster.wait_until_whole)
        await in_thread(wait_until, lambda: names_of(servers) != before)
    assert f"127.0.0.1:{replica.port}" in names_of(servers)
    assert changes.seen == []


def names_of(servers: Servers) -> set[str]:
    return {master.name for master in servers.masters()}


# Clusters of one node, which are soon made.


def lone_node(launcher: Launcher, *lines: str, slots: int = SLOTS) -> RedisServer:
    server = launcher.start("cluster-enabled yes", "cluster-port {free}", *lines)
    if slots:
        server.ask("CLUSTER", "ADDSLOTSRANGE", 0, slots - 1)
    return server


def url_of(server: RedisServer) -> str:
    return f"redis+cluster://127.0.0.1:{server.port}"


async def test_server_without_a_cluster(server: RedisServer, open_at: OpenServers) -> None:
    """Its URL has another form."""
    with pytest.raises(ConfigError, match=r"is not in a cluster; its URL must begin with redis://"):
        await open_at(url_of(server))


async def test_cluster_that_is_down(open_at: OpenServers, changes: Changes) -> None:
    """It is no error; the reason names all that was tried."""
    ports = free_port(), free_port()
    url = f"redis+cluster://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
    servers = await open_at(url)
    assert isinstance(servers.state, Open)
    for port in ports:
        assert f"127.0.0.1:{port}: Connection refused" in servers.state.reason
    assert answer_at_once(servers.ask(b"key", "PING")) == servers.state.reason
    assert answer_at_once(servers.dial(b"key")) == servers.state.reason
    assert (servers.masters(), len(changes.seen)) == ((), 1)


async def test_cluster_that_gets_its_slots_later(
    launcher: Launcher, open_at: OpenServers, changes: Changes
) -> None:
    """Nothing here need be restarted."""
    server = lone_node(launcher, slots=0)
    servers = await open_at(url_of(server))
    assert "no slot of the cluster has a server" in await changes.opened()
    server.ask("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
    await changes.closed()
    assert await servers.masters()[0].ask("PING") == b"PONG"


async def test_slots_without_a_server(
    launcher: Launcher, open_at: OpenServers, changes: Changes
) -> None:
    """The others are asked for all the same."""
    server = lone_node(launcher, "cluster-require-full-coverage no", slots=SLOTS // 2)
    servers = await open_at(url_of(server))
    assert await changes.opened() == "8192 of the cluster's slots have no server"
    key = next(key for key in KEYS if slot_of(key) < SLOTS // 2)
    lost = next(key for key in KEYS if slot_of(key) >= SLOTS // 2)

    with pytest.raises(Refused, match="CLUSTERDOWN"):  # as for two seconds from its start
        await servers.ask(key, "SET", key, "value")
    assert answer_at_once(servers.ask(lost, "GET", lost)) == f"no server has slot {slot_of(lost)}"


async def test_cluster_that_says_it_is_down(launcher: Launcher, open_at: OpenServers) -> None:
    """An answer like others: the node is not to blame."""
    server = lone_node(launcher, slots=SLOTS // 2)
    servers = await open_at(url_of(server))
    key = next(key for key in KEYS if slot_of(key) < SLOTS // 2)
    for _ in range(10):
        with pytest.raises(Refused, match="CLUSTERDOWN"):
            await servers.ask(key, "GET", key)
    assert servers.masters()[0].state == Closed()


@pytest.mark.parametrize(
    ("kind", "host"), [("hostname", "localhost"), ("unknown-endpoint", "127.0.0.1")]
)
async def test_announced_names(
    launcher: Launcher, open_at: OpenServers, kind: str, host: str
) -> None:
    """A node may be known by its name; one without any is where it was asked."""
    server = lone_node(
        launcher, "cluster-announce-hostname localhost", f"cluster-preferred-endpoint-type {kind}"
    )
    servers = await open_at(url_of(server))
    assert names_of(servers) == {f"{host}:{server.port}"}
    assert servers.state == Closed()


async def test_killed_and_started_again(
    launcher: Launcher, open_at: OpenServers, changes: Changes
) -> None:
    """All nodes at once."""
    server = lone_node(launcher)
    servers = await open_at(url_of(server))
    await in_thread(server.kill)
    await changes.opened()
    answer_at_once(servers.ask(b"key", "PING"))
    await in_thread(server.start)
    await changes.closed()
    assert await servers.masters()[0].ask("PING") == b"PONG"
    assert len(changes.seen) == 2


async def test_user_with_password(launcher: Launcher, open_at: OpenServers) -> None:
    """For every node."""
    server = lone_node(launcher, "user ann on >word allkeys allcommands")
    servers = await open_at(f"redis+cluster://ann:word@127.0.0.1:{server.port}")
    assert [await master.ask("ACL", "WHOAMI") for master in servers.masters()] == [b"ann"]


async def test_closing(launcher: Launcher, open_at: OpenServers, changes: Changes) -> None:
    """No task and no news are left."""
    servers = await open_at(url_of(lone_node(launcher)))
    await servers.aclose()
    assert answer_at_once(servers.ask(b"key", "PING")) == "it was closed here"
    assert changes.seen == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
