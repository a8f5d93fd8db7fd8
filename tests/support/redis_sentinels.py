"""A master with a replica, and sentinels that watch them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.redis_servers import RedisServer, Servers, redis_servers, wait_until

SERVICE = "main"


@dataclass(frozen=True)
class Watched:
    """A master and a replica, either of which may be which, and their sentinels."""

    servers: tuple[RedisServer, RedisServer]
    sentinels: tuple[RedisServer, ...]

    def master(self) -> RedisServer:
        """Return the master, as the first sentinel sees it."""
        _, port = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(port))

    def replica(self) -> RedisServer:
        """Return the other one."""
        master = self.master()
        return next(server for server in self.servers if server is not master)

    def wait_until_whole(self) -> None:
        """Return when a failover is possible."""
        wait_until(lambda: all(map(self._is_whole, self.sentinels)))

    def _is_whole(self, sentinel: RedisServer) -> bool:
        replicas = _fields(sentinel, "REPLICAS")
        others = [field[b"flags"] for field in _fields(sentinel, "SENTINELS")]
        return [(field[b"flags"], field[b"master-link-status"]) for field in replicas] == [
            (b"slave", b"ok")
        ] and others == [b"sentinel"] * (len(self.sentinels) - 1)


def _fields(sentinel: RedisServer, of: str) -> list[dict[bytes, bytes]]:
    told = sentinel.ask("SENTINEL", of, SERVICE)
    return [dict(zip(one[::2], one[1::2], strict=True)) for one in told]


def start_sentinel(
    launcher: Servers, master: RedisServer, *lines: str, quorum: int = 1
) -> RedisServer:
    """Start a sentinel that notices within a second, and tells what it sees ten times a second."""
    sentinel = launcher.start(
        f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} {quorum}",
        f"sentinel down-after-milliseconds {SERVICE} 1000",
        f"sentinel failover-timeout {SERVICE} 3000",
        *lines,
        arguments=("--sentinel",),
    )
    sentinel.ask("SENTINEL", "DEBUG", "INFO-PERIOD", 100, "PUBLISH-PERIOD", 100)
    return sentinel


@contextmanager
def redis_watched(
    *,
    sentinels: int,
    server_lines: tuple[str, ...] = (),
    sentinel_lines: tuple[str, ...] = (),
) -> Iterator[Watched]:
    """Lend a master, a replica and sentinels, which are ended afterwards.

    Args:
        sentinels: How many; more than half of them must agree.
        server_lines: Of the configuration of both servers.
        sentinel_lines: Of that of each sentinel.
    """
    with redis_servers() as launcher:
        login = (*server_lines, "repl-diskless-sync-delay 0")
        master = launcher.start(*login)
        replica = launcher.start(*login, f"replicaof 127.0.0.1 {master.port}")
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
        watching = [
            start_sentinel(launcher, master, *sentinel_lines, quorum=sentinels // 2 + 1)
            for _ in range(sentinels)
        ]
        yield Watched((master, replica), tuple(watching))
