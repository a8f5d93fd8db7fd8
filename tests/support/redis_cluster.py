"""A real cluster of three masters with a replica each."""

from collections.abc import Iterator
from contextlib import contextmanager

from support.redis_servers import RedisServer, Servers, redis_servers, wait_until

SLOTS = 16_384
_MASTERS = 3
_LINES = (
    "cluster-enabled yes",
    "cluster-port {free}",
    "cluster-node-timeout 1000",
    "cluster-replica-validity-factor 0",
    "cluster-require-full-coverage no",
    "cluster-allow-replica-migration no",
    "repl-diskless-sync-delay 0",
)


class RedisCluster:
    """Six servers; which of them are masters, tests may change."""

    def __init__(self, launcher: Servers) -> None:
        """Start them, and return when all know of each other."""
        self.servers = [launcher.start(*_LINES) for _ in range(2 * _MASTERS)]
        masters, replicas = self.servers[:_MASTERS], self.servers[_MASTERS:]
        edges = [SLOTS * number // _MASTERS for number in range(_MASTERS + 1)]
        for number, server in enumerate(self.servers):
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server, first, end in zip(masters, edges[:-1], edges[1:], strict=True):
            server.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for server in self.servers[1:]:
            bus_port = server.ask("CONFIG", "GET", "cluster-port")[1]
            self.servers[0].ask("CLUSTER", "MEET", "127.0.0.1", server.port, bus_port)
        wait_until(lambda: all(_known(server) == 2 * _MASTERS for server in self.servers))
        for master, replica in zip(masters, replicas, strict=True):
            replica.ask("CLUSTER", "REPLICATE", node_id(master))
        self.wait_until_whole()

    @property
    def url(self) -> str:
        """A URL that names one node."""
        return f"redis+cluster://127.0.0.1:{self.servers[-1].port}"

    def owner(self, slot: int) -> RedisServer:
        """Return the master of a slot."""
        return next(server for server in self.servers if _owner_port(server, slot) == server.port)

    def masters(self) -> list[RedisServer]:
        """Return those that have slots."""
        return [server for server in self.servers if server.info("replication")["role"] == "master"]

    def start_move(self, slot: int, target: RedisServer) -> None:
        """Begin to move a slot: what is not there any more is asked for at ``target``."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target))

    def move_keys(self, slot: int, target: RedisServer, *keys: bytes) -> None:
        """Move keys of a slot that is moving; by default all."""
        source = self.owner(slot)
        for key in keys or source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1_000_000):
            source.ask("MIGRATE", "127.0.0.1", target.port, key, 0, 10_000)

    def end_move(self, slot: int, target: RedisServer) -> None:
        """Give the slot to ``target``; the other nodes hear of it soon."""
        source = self.owner(slot)
        for server in (target, source):
            server.ask("CLUSTER", "SETSLOT", slot, "NODE", node_id(target))
        wait_until(lambda: all(_owner_port(server, slot) == target.port for server in self.servers))

    def wait_until_whole(self) -> None:
        """Return when all nodes agree that each slot has a master with a replica."""
        wait_until(lambda: all(map(_is_whole, self.servers)))


def node_id(server: RedisServer) -> bytes:
    """Return the id of a node."""
    return bytes(server.ask("CLUSTER", "MYID"))


def _known(server: RedisServer) -> int:
    nodes = server.ask("CLUSTER", "NODES").decode().splitlines()
    return sum("handshake" not in node for node in nodes)


def _owner_port(server: RedisServer, slot: int) -> int:
    for first, last, master, *_ in server.ask("CLUSTER", "SLOTS"):
        if first <= slot <= last:
            return int(master[1])
    return 0


def _is_whole(server: RedisServer) -> bool:
    """Return whether a node sees a master with a replica for each slot, and is synchronized."""
    ranges = server.ask("CLUSTER", "SLOTS")
    covered = sum(last - first + 1 for first, last, _, *replicas in ranges if replicas)
    replication = server.info("replication")
    return (
        b"cluster_state:ok" in server.ask("CLUSTER", "INFO")
        and covered == SLOTS
        and replication.get("master_link_status", "up") == "up"
    )


@contextmanager
def redis_cluster() -> Iterator[RedisCluster]:
    """Lend a cluster; its servers are ended afterwards."""
    with redis_servers() as launcher:
        yield RedisCluster(launcher)
