"""A master that sentinels watch: it is found, and so is the next one."""

import asyncio
from collections.abc import Iterator

import pytest
from support.redis_client import Changes, OpenServers, answer_at_once, fail_until_open
from support.redis_sentinels import SERVICE, Watched, redis_watched, start_sentinel
from support.redis_servers import RedisServer, free_port
from support.redis_servers import Servers as Launcher

from stepwell.core.errors import ConfigError
from stepwell.stores.breaker import Closed, Open
from stepwell.stores.redis import sentinel as sentinel_module
from stepwell.stores.redis.address import Credentials
from stepwell.stores.redis.servers import CONNECT_TIMEOUT_SECONDS, TIMEOUT_SECONDS

KEY = b"key"
USER = "user ann on >word allkeys allchannels allcommands"
LOGIN = (f"sentinel auth-user {SERVICE} ann", f"sentinel auth-pass {SERVICE} word")


def url_of(watched: Watched) -> str:
    """Return a URL; the first of its sentinels is gone."""
    sentinels = f"127.0.0.1:{free_port()},127.0.0.1:{watched.sentinels[0].port}"
    return f"redis+sentinel://ann:word@{sentinels}/{SERVICE}/1"


@pytest.fixture(scope="module")
def watched_servers() -> Iterator[Watched]:
    """One set for all tests; what they break is whole again after a while."""
    login = (USER, "masteruser ann", "masterauth word")
    with redis_watched(sentinels=1, server_lines=login, sentinel_lines=LOGIN) as watched:
        yield watched


@pytest.fixture
def watched(watched_servers: Watched) -> Watched:
    """Servers of which all is well."""
    watched_servers.wait_until_whole()
    return watched_servers


async def test_master_is_found(watched: Watched, open_at: OpenServers) -> None:
    """Whichever sentinel answers; user, password and db are the master's."""
    servers = await open_at(url_of(watched))
    assert servers.state == Closed()
    await servers.ask(KEY, "SET", KEY, "value")
    assert watched.master().info("keyspace")["db1"].startswith("keys=1,")
    link = await servers.dial(KEY)
    assert await link.ask("GET", KEY, timeout_seconds=30) == b"value"
    link.close()
    await link.wait_closed()


@pytest.mark.slow
async def test_failover_on_request(
    watched: Watched, open_at: OpenServers, changes: Changes
) -> None:
    """An operator's: calls follow, and nothing here need be restarted."""
    servers = await open_at(url_of(watched))
    replica = watched.replica()
    watched.sentinels[0].ask("SENTINEL", "FAILOVER", SERVICE)
    await changes.opened()
    await changes.closed()
    assert await servers.ask(KEY, "CONFIG", "GET", "port") == [b"port", b"%d" % replica.port]
    await asyncio.to_thread(watched.wait_until_whole)


@pytest.mark.slow
async def test_master_that_is_killed(
    watched: Watched, open_at: OpenServers, changes: Changes
) -> None:
    """Calls fail at once until there is another."""
    servers = await open_at(url_of(watched))
    victim, replica = watched.master(), watched.replica()
    await asyncio.to_thread(victim.kill)
    await changes.opened()
    answer_at_once(servers.ask(KEY, "PING"))
    await changes.closed()
    assert await servers.ask(KEY, "CONFIG", "GET", "port") == [b"port", b"%d" % replica.port]
    await asyncio.to_thread(victim.start)
    await asyncio.to_thread(watched.wait_until_whole)
    assert len(changes.seen) == 2


@pytest.mark.slow
async def test_master_that_is_paused(
    watched: Watched, open_at: OpenServers, changes: Changes
) -> None:
    """As if it were killed; when it goes on, nobody asks it."""
    servers = await open_at(
        url_of(watched),
        timeout_seconds=TIMEOUT_SECONDS,
        connect_timeout_seconds=CONNECT_TIMEOUT_SECONDS,  # of each try, while it is paused
    )
    victim, replica = watched.master(), watched.replica()
    victim.pause()
    await fail_until_open(changes, lambda: servers.ask(KEY, "PING"))
    await changes.closed()
    victim.resume()
    await asyncio.to_thread(watched.wait_until_whole)
    asked = await servers.ask(KEY, "CONFIG", "GET", "port", timeout_seconds=30)
    assert asked == [b"port", b"%d" % replica.port]


async def test_master_that_is_cut_off_from_its_sentinels(
    launcher: Launcher, open_at: OpenServers, changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know that there is another; the sentinels are asked now and then."""
    monkeypatch.setattr(sentinel_module, "LOOK_SECONDS", 0.1)
    old, new = launcher.start(USER), launcher.start(USER)
    sentinel = start_sentinel(launcher, old, *LOGIN)
    servers = await open_at(f"redis+sentinel://ann:word@127.0.0.1:{sentinel.port}/{SERVICE}")
    await servers.ask(KEY, "SET", KEY, "old")
    sentinel.ask("SENTINEL", "REMOVE", SERVICE)
    sentinel.ask("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", new.port, 1)
    assert f"the master is 127.0.0.1:{new.port} now" in await changes.opened()
    await changes.closed()
    assert await servers.ask(KEY, "GET", KEY) is None


@pytest.mark.parametrize("user", [None, "watcher"])
async def test_sentinel_with_a_password(
    launcher: Launcher, open_at: OpenServers, user: str | None
) -> None:
    """Another than the master's; without it, or with a wrong one, the reason names the setting."""
    master = launcher.start(USER)
    locked = (
        "requirepass secret"
        if user is None
        else f"user {user} on >secret +sentinel|get-master-addr-by-name"
    )
    closed = () if user is None else ("user default off",)
    sentinel = launcher.start(
        f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 1",
        *(*LOGIN, locked, *closed),
        arguments=("--sentinel",),
    )
    url = f"redis+sentinel://ann:word@127.0.0.1:{sentinel.port}/{SERVICE}"
    servers = await open_at(url, sentinel_credentials=Credentials(user, "secret"))
    assert await servers.ask(KEY, "PING") == b"PONG"
    for credentials in (Credentials(), Credentials(user, "wrong")):
        servers = await open_at(url, sentinel_credentials=credentials)
        assert isinstance(servers.state, Open)
        assert "see stores.redis.sentinel_password_env" in servers.state.reason


async def test_service_nobody_knows(launcher: Launcher, open_at: OpenServers) -> None:
    """The operator must write another, if all sentinels say so."""
    sentinel = launcher.start(arguments=("--sentinel",))
    url = f"redis+sentinel://127.0.0.1:{sentinel.port}"
    with pytest.raises(ConfigError, match="watches no service 'other'"):
        await open_at(f"{url}/other")
    servers = await open_at(f"{url},127.0.0.1:{free_port()}/other")
    assert isinstance(servers.state, Open)


async def test_sentinels_that_are_gone(
    launcher: Launcher, open_at: OpenServers, changes: Changes
) -> None:
    """It is no error; the reason names each."""
    ports = free_port(), free_port()
    servers = await open_at(
        f"redis+sentinel://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/{SERVICE}",
        credentials=Credentials("ann", "word"),
    )
    reason = await changes.opened()
    for port in ports:
        assert f"127.0.0.1:{port}: Connection refused" in reason
    assert answer_at_once(servers.ask(KEY, "PING")) == reason


async def test_server_that_is_no_sentinel(server: RedisServer, open_at: OpenServers) -> None:
    """It says so in its own words."""
    servers = await open_at(f"redis+sentinel://127.0.0.1:{server.port}/{SERVICE}")
    assert isinstance(servers.state, Open)
    assert "unknown command" in servers.state.reason


async def test_closing(watched: Watched, open_at: OpenServers, changes: Changes) -> None:
    """No task and no news are left."""
    servers = await open_at(url_of(watched))
    await servers.aclose()
    assert answer_at_once(servers.ask(KEY, "PING")) == "it was closed here"
    assert changes.seen == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
