"""Opens the store that several machines share."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

from stepwell.assembly.environment import secret_from
from stepwell.assembly.part_watch import PartWatch
from stepwell.assembly.settings import Redis
from stepwell.core.clock import Clock
from stepwell.core.errors import StoreError
from stepwell.core.events import Degraded
from stepwell.core.names import Tier
from stepwell.core.ports import EventSink
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.breaker import Open
from stepwell.stores.redis.servers import Servers, open_servers
from stepwell.stores.redis.store import RedisStore
from stepwell.stores.redis.tls import Tls


async def open_redis(table: Redis, url: str, *, clock: Clock, events: EventSink) -> RedisStore:
    """Return the store that ``[stores.redis]`` describes, whether Redis is there or not.

    Raises:
        ConfigError: A setting cannot be used.
    """
    watch = PartWatch(Tier.REDIS, clock=clock, events=events)
    servers = await open_servers(
        parse_address(url),
        credentials=credentials_of(table),
        tls=Tls(
            _path(table.ca_file),
            _path(table.cert_file),
            _path(table.key_file),
            table.check_hostname,
        ),
        # That all is well again the store says, whose feed must be heard, too.
        on_change=lambda state: watch.note(state.reason) if isinstance(state, Open) else None,
        timeout_seconds=table.timeout_seconds,
        sentinel_credentials=sentinel_credentials_of(table),
    )
    async for warning in _warnings(servers):
        events.emit(Degraded("store.redis", warning))
    return await RedisStore.open(
        servers,
        prefix=table.prefix,
        clock=clock,
        events=events,
        max_lag_seconds=table.max_lag_seconds,
        on_change=watch.note,
    )


def credentials_of(table: Redis) -> Credentials:
    """Return what the URL does not say already.

    Raises:
        ConfigError: The variable with the password is not set.
    """
    return Credentials(table.username, _secret(table.password_env, "password_env"))


def sentinel_credentials_of(table: Redis) -> Credentials:
    """As `credentials_of`, for those who watch the server."""
    password = _secret(table.sentinel_password_env, "sentinel_password_env")
    return Credentials(table.sentinel_username, password)


def _secret(variable: str | None, key: str) -> str | None:
    return None if variable is None else secret_from(variable, setting=f"stores.redis.{key}")


async def _warnings(servers: Servers) -> AsyncIterator[str]:
    """Yield what of the servers' memory will give trouble."""
    for node in servers.masters():
        try:
            told = await node.ask("INFO", "memory")
        except StoreError:
            continue  # Down, or not to be asked by us.
        text = told.decode(errors="replace") if isinstance(told, bytes) else ""
        bound = re.search(r"maxmemory:(\d+)", text)
        policy = re.search(r"maxmemory_policy:([\w-]+)", text)
        if bound is not None and bound[1] == "0":
            yield (
                "maxmemory is 0: answers fill the server's memory without bound;"
                " set maxmemory, and maxmemory-policy volatile-lru"
            )
        elif policy is not None and policy[1] == "noeviction":
            yield (
                "maxmemory-policy is noeviction: when Redis is full, nothing more is stored;"
                " set it to volatile-lru, or another volatile policy"
            )
        elif policy is not None and policy[1].startswith("allkeys"):
            yield (
                f"maxmemory-policy is {policy[1]}: it may evict the change feed, and all answers"
                " with it; set it to volatile-lru, or another volatile policy"
            )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()
