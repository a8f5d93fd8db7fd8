"""One real server: asking it, and everything that can happen to it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from support.redis_client import (
    Changes,
    OpenServers,
    answer_at_once,
    fail_until_open,
    pretender,
)
from support.redis_servers import PATIENCE_SECONDS, RedisServer, free_port, wait_until
from support.redis_servers import Servers as Launcher

from stepwell.core.errors import ConfigError, StoreFull, StoreUnavailable
from stepwell.stores.breaker import Closed, Open
from stepwell.stores.redis import link as link_module
from stepwell.stores.redis.address import Credentials
from stepwell.stores.redis.link import Late, Refused
from stepwell.stores.redis.servers import TIMEOUT_SECONDS

KEY = b"key"


async def test_asking(launcher: Launcher, program: str, open_at: OpenServers) -> None:
    """Over TCP and a Unix socket, in the db of the URL, under our name."""
    server = launcher.start(program=program)
    over_tcp = await open_at(f"{server.url}/3")
    over_socket = await open_at(f"unix://{server.socket_path}?db=3")
    assert (over_tcp.state, over_socket.state) == (Closed(), Closed())
    assert await over_tcp.ask(KEY, "SET", KEY, b"\x00value\xff") == b"OK"
    assert await over_socket.ask(KEY, "GET", KEY) == b"\x00value\xff"
    assert [await master.ask("DBSIZE") for master in over_tcp.masters()] == [1]
    assert server.ask("CLIENT", "LIST").count(b"name=stepwell ") == 2


async def test_by_name(server: RedisServer, open_at: OpenServers) -> None:
    """Of the addresses a name has, one that answers is used."""
    servers = await open_at(f"redis://localhost:{server.port}")
    assert await servers.ask(KEY, "PING") == b"PONG"


async def test_many_at_once(server: RedisServer, open_at: OpenServers) -> None:
    """Over one connection; each gets its own reply."""
    servers = await open_at(server.url)
    await asyncio.gather(*(servers.ask(KEY, "SET", number, number) for number in range(1_000)))
    replies = await asyncio.gather(*(servers.ask(KEY, "GET", number) for number in range(1_000)))
    assert replies == [b"%d" % number for number in range(1_000)]
    assert server.ask("CLIENT", "LIST").count(b"name=stepwell ") == 1


async def test_a_connection_of_ones_own(server: RedisServer, open_at: OpenServers) -> None:
    """What waits there holds up nobody else."""
    servers = await open_at(f"{server.url}/2")
    link = await servers.dial(KEY)
    waiting = link.ask("BLPOP", "list", 0, timeout_seconds=60)
    assert await servers.ask(KEY, "RPUSH", "list", "item") == 1
    assert await waiting == [b"list", b"item"]
    link.close()
    await link.wait_closed()


async def test_user_with_password(launcher: Launcher, program: str, open_at: OpenServers) -> None:
    """From the URL or beside it."""
    server = launcher.start("user ann on >word allkeys allcommands", program=program)
    place = f"127.0.0.1:{server.port}"
    for url, credentials in [
        (f"redis://ann:word@{place}", Credentials()),
        (f"redis://ann@{place}", Credentials(None, "word")),
        (f"redis://{place}", Credentials("ann", "word")),
    ]:
        servers = await open_at(url, credentials=credentials)
        assert await servers.ask(KEY, "ACL", "WHOAMI") == b"ann"


async def test_user_who_may_do_little(launcher: Launcher, open_at: OpenServers) -> None:
    """Not even PING: a server that says so answers, after all."""
    server = launcher.start("user ann on >word ~key +get")
    servers = await open_at(f"redis://ann:word@127.0.0.1:{server.port}")
    assert await servers.ask(KEY, "GET", KEY) is None
    with pytest.raises(Refused, match="NOPERM"):
        await servers.ask(KEY, "SET", KEY, "value")
    assert servers.state == Closed()


async def test_wrong_password_is_mended_at_the_server(
    launcher: Launcher, program: str, open_at: OpenServers, changes: Changes
) -> None:
    """The reason says what to do and quotes no password; afterwards nothing need be restarted."""
    server = launcher.start("user ann on >SECRET1 allkeys allcommands", program=program)
    servers = await open_at(f"redis://ann:SECRET2@127.0.0.1:{server.port}")
    reason = await changes.opened()
    assert "refuses the user 'ann'" in reason
    assert "stores.redis.password_env" in reason
    assert "SECRET" not in reason
    assert answer_at_once(servers.ask(KEY, "PING")) == reason
    server.ask("ACL", "SETUSER", "ann", ">SECRET2")
    await changes.closed()
    assert await servers.ask(KEY, "PING") == b"PONG"
    assert len(changes.seen) == 2


async def test_password_is_missing(launcher: Launcher, program: str, open_at: OpenServers) -> None:
    """The server's own words would only tell how to type a command."""
    server = launcher.start("requirepass word", program=program)
    servers = await open_at(server.url)
    assert isinstance(servers.state, Open)
    assert "it wants a password" in servers.state.reason


async def test_too_many_clients(
    launcher: Launcher, program: str, open_at: OpenServers, changes: Changes
) -> None:
    """A server that is full is one that fails, and says why; it recovers by itself."""
    server = launcher.start(program=program)
    first = await open_at(server.url)
    await first.ask(KEY, "CONFIG", "SET", "maxclients", 1)
    second = await open_at(server.url)
    assert "max number of clients reached" in await changes.opened()
    await first.ask(KEY, "CONFIG", "SET", "maxclients", 100)
    await changes.closed()
    assert await second.ask(KEY, "PING") == b"PONG"
    assert first.state == Closed()


@pytest.mark.parametrize(
    ("kind", "lines", "arguments"),
    [
        ("cluster", ("cluster-enabled yes", "cluster-port {free}"), ()),
        ("sentinel", (), ("--sentinel",)),
    ],
)
async def test_server_of_another_kind(
    launcher: Launcher,
    open_at: OpenServers,
    changes: Changes,
    kind: str,
    lines: tuple[str, ...],
    arguments: tuple[str, ...],
) -> None:
    """Its URL has another form, which no waiting mends."""
    server = launcher.start(*lines, arguments=arguments)
    with pytest.raises(ConfigError, match=rf"must begin with redis\+{kind}://"):
        await open_at(server.url)
    assert changes.seen == []


async def test_db_that_does_not_exist(server: RedisServer, open_at: OpenServers) -> None:
    """The operator must choose another."""
    with pytest.raises(ConfigError, match=r"has no db 16 .*databases"):
        await open_at(f"{server.url}/16")


async def test_server_is_down_at_the_start(open_at: OpenServers, changes: Changes) -> None:
    """That is no error, and calls fail at once."""
    port = free_port()
    servers = await open_at(f"redis://127.0.0.1:{port}")
    assert servers.state == Open(f"127.0.0.1:{port}: Connection refused")
    assert answer_at_once(servers.ask(KEY, "PING")).endswith("Connection refused")
    assert answer_at_once(servers.dial(KEY)).endswith("Connection refused")
    assert changes.reasons == [f"127.0.0.1:{port}: Connection refused"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://no-such-host.invalid", "no-such-host.invalid:6379: "),
        ("redis://a.invalid-", "a.invalid-:6379: "),
        ("unix:///no/such/socket", "/no/such/socket: No such file or directory"),
        (f"redis://{'x' * 63}.invalid", "x.invalid:6379: "),
    ],
)
async def test_server_that_is_nowhere(open_at: OpenServers, url: str, reason: str) -> None:
    """Names may come to be known, and sockets to be made."""
    servers = await open_at(url)
    assert isinstance(servers.state, Open)
    assert reason in servers.state.reason


async def test_killed_and_started_again(
    launcher: Launcher, program: str, open_at: OpenServers, changes: Changes
) -> None:
    """One news each; calls fail at once in between; nothing here need be restarted."""
    server = launcher.start(program=program)
    servers = await open_at(server.url)
    waiting = asyncio.create_task(servers.ask(KEY, "BLPOP", "list", 0))
    await asyncio.sleep(0)
    await asyncio.to_thread(server.kill)
    with pytest.raises(StoreUnavailable, match="connection broke"):
        await waiting
    await changes.opened()
    answer_at_once(servers.ask(KEY, "PING"))
    await asyncio.to_thread(server.start)
    await changes.closed()
    assert await servers.ask(KEY, "PING") == b"PONG"
    assert len(changes.seen) == 2


async def test_paused_and_resumed(
    launcher: Launcher, program: str, open_at: OpenServers, changes: Changes
) -> None:
    """A few calls wait for their time, then none does; what comes late reaches nobody."""
    server = launcher.start(program=program)
    servers = await open_at(server.url, timeout_seconds=TIMEOUT_SECONDS)
    server.pause()
    await fail_until_open(changes, lambda: servers.ask(KEY, "ECHO", "late"))
    assert "late" in await changes.opened()
    server.resume()
    await changes.closed()
    assert await servers.ask(KEY, "ECHO", "mine", timeout_seconds=30) == b"mine"


async def test_nobody_waits_behind_a_late_reply(
    open_at: OpenServers, server: RedisServer, changes: Changes
) -> None:
    """But who says how long he waits; and once the server speaks again, all may ask it."""
    servers = await open_at(server.url, timeout_seconds=1.0)
    server.pause()
    with pytest.raises(Late):
        await servers.ask(KEY, "ECHO", "late")
    assert servers.state == Closed()
    assert "in time" in answer_at_once(servers.ask(KEY, "PING"))
    patient = asyncio.create_task(servers.ask(KEY, "ECHO", "patient", timeout_seconds=30))
    await asyncio.sleep(0)
    server.resume()
    assert await patient == b"patient"
    assert (servers.state, changes.seen) == (Closed(), [])
    assert await servers.ask(KEY, "ECHO", "mine", timeout_seconds=30) == b"mine"


async def test_long_pause(open_at: OpenServers, server: RedisServer, changes: Changes) -> None:
    """A connection that does not come back is given up, and another is made."""
    servers = await open_at(server.url, timeout_seconds=0.02, connect_timeout_seconds=0.1)
    server.pause()
    await fail_until_open(changes, lambda: servers.ask(KEY, "PING"))
    await asyncio.to_thread(wait_until, lambda: "not ready" in str(servers.state))
    server.resume()
    await changes.closed()
    assert await servers.ask(KEY, "PING", timeout_seconds=30) == b"PONG"


async def test_paused_until_nothing_more_may_wait(
    server: RedisServer, open_at: OpenServers, changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the probe fits; it makes a connection of its own."""
    servers = await open_at(server.url, timeout_seconds=0.02, connect_timeout_seconds=0.1)
    monkeypatch.setattr(link_module, "MAX_WAITING", 3)
    server.pause()
    while not changes.seen:
        ends = await asyncio.gather(
            *(servers.ask(KEY, "PING") for _ in range(4)), return_exceptions=True
        )
        assert isinstance(ends[-1], StoreFull | StoreUnavailable)
        await asyncio.sleep(0.001)
    server.resume()
    await changes.closed()
    assert await servers.ask(KEY, "PING", timeout_seconds=30) == b"PONG"


async def test_connection_killed(
    server: RedisServer, open_at: OpenServers, changes: Changes
) -> None:
    """Such as one that was idle for too long: there is another at once."""
    servers = await open_at(server.url)
    server.ask("CLIENT", "KILL", "TYPE", "normal")
    await changes.opened()
    await changes.closed()
    assert await servers.ask(KEY, "PING") == b"PONG"


async def test_error_replies_never_open_the_circuit(
    launcher: Launcher, program: str, open_at: OpenServers, changes: Changes
) -> None:
    """However many: a server that refuses is one that answers."""
    server = launcher.start(program=program)
    servers = await open_at(server.url)
    await servers.ask(KEY, "LPUSH", KEY, "item")
    for _ in range(20):
        with pytest.raises(Refused, match="WRONGTYPE"):
            await servers.ask(KEY, "GET", KEY)
    server.ask("CONFIG", "SET", "maxmemory", 1)
    for _ in range(20):
        with pytest.raises(Refused) as caught:
            await servers.ask(KEY, "SET", "other", "value")
        assert caught.value.code == "OOM"
    assert (servers.state, changes.seen) == (Closed(), [])


async def test_our_own_bound_never_opens_the_circuit(
    server: RedisServer, open_at: OpenServers, changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are refused here, which says nothing of the server."""
    servers = await open_at(server.url)
    monkeypatch.setattr(link_module, "MAX_WAITING", 3)
    ends = await asyncio.gather(
        *(servers.ask(KEY, "PING") for _ in range(10)), return_exceptions=True
    )
    assert [type(end) for end in ends] == [bytes] * 3 + [StoreFull] * 7
    assert (servers.state, changes.seen) == (Closed(), [])


async def test_a_caller_who_leaves(server: RedisServer, open_at: OpenServers) -> None:
    """Takes no other's reply along."""
    servers = await open_at(server.url)
    leaving = asyncio.create_task(servers.ask(KEY, "ECHO", "nobody's"))
    staying = asyncio.create_task(servers.ask(KEY, "ECHO", "mine"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == b"mine"
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_replica_is_not_used(
    launcher: Launcher, program: str, open_at: OpenServers, changes: Changes
) -> None:
    """Until it is made a master."""
    master = launcher.start(program=program)
    replica = launcher.start(f"replicaof 127.0.0.1 {master.port}", program=program)
    servers = await open_at(replica.url)
    assert "it is a replica, not a master" in await changes.opened()
    replica.ask("REPLICAOF", "NO", "ONE")
    await changes.closed()
    assert await servers.ask(KEY, "SET", KEY, "value") == b"OK"


async def test_master_becomes_a_replica(
    launcher: Launcher, program: str, open_at: OpenServers, changes: Changes
) -> None:
    """Its first refusal to write is heard, though it still reads."""
    other = launcher.start(program=program)
    server = launcher.start(program=program)
    servers = await open_at(server.url)
    server.ask("REPLICAOF", "127.0.0.1", other.port)
    with pytest.raises(Refused, match="READONLY"):
        await servers.ask(KEY, "SET", KEY, "value")
    assert "not the master any more" in await changes.opened()
    server.ask("REPLICAOF", "NO", "ONE")
    await changes.closed()
    assert await servers.ask(KEY, "SET", KEY, "value") == b"OK"


async def test_closing(server: RedisServer, open_at: OpenServers, changes: Changes) -> None:
    """Calls under way fail, later ones at once; no task and no news are left."""
    servers = await open_at(server.url)
    waiting = asyncio.create_task(servers.ask(KEY, "BLPOP", "list", 0))
    await asyncio.sleep(0)
    await servers.aclose()
    with pytest.raises(StoreUnavailable, match="it was closed here"):
        await waiting
    assert answer_at_once(servers.ask(KEY, "PING")) == "it was closed here"
    assert changes.seen == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


HELLO = b"*4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"


class Actor:
    """Answers each command as its part says, one for each connection; ``None``: not at all."""

    def __init__(self, part: Mapping[bytes, bytes | None]) -> None:
        self.part = dict(part)
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            count = int((await reader.readuntil(b"\r\n"))[1:])
            words = [await self._read_word(reader) for _ in range(count)]
            reply = self.part.get(words[0], b"+OK\r\n")
            if reply is not None:
                writer.write(reply)

    async def _read_word(self, reader: asyncio.StreamReader) -> bytes:
        length = int((await reader.readuntil(b"\r\n"))[1:])
        return (await reader.readexactly(length + 2))[:-2]


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({b"HELLO": None}, "not ready within 0.2 s"),
        ({b"HELLO": HELLO, b"PING": None}, "did not answer in time"),
        ({b"HELLO": HELLO, b"PING": b"-LOADING the dataset\r\n"}, "LOADING the dataset"),
        ({b"HELLO": b"+hi\r\n"}, "does not greet as Redis does"),
        ({b"HELLO": b"-DENIED protected mode\r\n"}, "DENIED protected mode"),
        ({b"HELLO": b"SSH-2.0-OpenSSH_9.2\r\n"}, "does not speak as Redis does"),
        (
            {b"HELLO": b"-ERR unknown command `HELLO`, with args beginning with: `SECRET`\r\n"},
            "too old",
        ),
    ],
)
async def test_servers_that_are_not_ready(
    open_at: OpenServers, changes: Changes, part: dict[bytes, bytes | None], reason: str
) -> None:
    """Each in its way; when that ends, they are used."""
    actor = Actor(part)
    seconds = 0.2 if None in part.values() else PATIENCE_SECONDS
    async with pretender(actor.serve) as at:
        servers = await open_at(
            f"redis://:SECRET@{at}", timeout_seconds=seconds, connect_timeout_seconds=seconds
        )
        assert reason in await changes.opened()
        assert "SECRET" not in str(changes.reasons)
        actor.part = {b"HELLO": HELLO}
        await changes.closed()
        assert await servers.ask(KEY, "GET", KEY, timeout_seconds=30) == b"OK"
        assert len(changes.seen) == 2
        await servers.aclose()


async def test_a_server_that_is_loading_keeps_its_connection(
    open_at: OpenServers, changes: Changes
) -> None:
    """Thousands of clients that connect anew again and again would not help it."""
    actor = Actor({b"HELLO": HELLO, b"PING": b"-LOADING the dataset\r\n"})
    async with pretender(actor.serve) as at:
        servers = await open_at(f"redis://{at}")
        await asyncio.sleep(0.3)  # two probes or more
        actor.part = {b"HELLO": HELLO}
        await changes.closed()
        assert actor.connections == 1
        await servers.aclose()


async def test_closing_while_it_is_probed(open_at: OpenServers) -> None:
    """A connection that is just being made does not outlive it."""
    actor = Actor({b"HELLO": HELLO, b"PING": b"-LOADING the dataset\r\n"})
    async with pretender(actor.serve) as at:
        servers = await open_at(f"redis://{at}", connect_timeout_seconds=30.0)
        servers.masters()[0].fail("tried")
        actor.part = {b"HELLO": None}
        await asyncio.to_thread(wait_until, lambda: actor.connections == 2)
        await servers.aclose()


async def test_opening_that_is_cancelled(open_at: OpenServers) -> None:
    """Leaves nothing behind."""
    actor = Actor({b"HELLO": None})
    async with pretender(actor.serve) as at:
        opening = asyncio.create_task(_opened(open_at, f"redis://{at}"))
        await asyncio.to_thread(wait_until, lambda: actor.connections == 1)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening


async def _opened(open_at: OpenServers, url: str) -> Any:
    return await open_at(url)
