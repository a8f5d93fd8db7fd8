"""Opens the store that several machines share."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.assembly.environment import secret_from
from stepwell.assembly.part_watch import PartWatch
from stepwell.assembly.settings import Redis
from stepwell.core.clock import Clock
from stepwell.core.errors import ConfigError
from stepwell.core.events import Degraded
from stepwell.core.names import Tier
from stepwell.core.ports import EventSink
from stepwell.stores.breaker import Open
from stepwell.stores.redis.address import Cluster, Credentials, parse_address
from stepwell.stores.redis.embeddings import RedisEmbeddings
from stepwell.stores.redis.eviction import Eviction, eviction_of
from stepwell.stores.redis.servers import Servers, open_servers
from stepwell.stores.redis.store import RedisStore
from stepwell.stores.redis.tls import Tls, make_context

if TYPE_CHECKING:
    from stepwell.core.vectors import Embedder
    from stepwell.stores.redis.points import RedisPoints


async def open_redis(table: Redis, url: str, *, clock: Clock, events: EventSink) -> RedisStore:
    """Return the store that ``[stores.redis]`` describes, whether Redis is there or not.

    Raises:
        ConfigError: A setting cannot be used.
    """
    watch = PartWatch(Tier.REDIS, clock=clock, events=events)
    servers = await open_servers(
        parse_address(url),
        credentials=credentials_of(table),
        tls=_tls_of(table),
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


async def open_redis_embeddings(
    table: Redis,
    url: str,
    *,
    ttl_seconds: float,
    clock: Clock,
    events: EventSink,
) -> tuple[RedisEmbeddings, Servers]:
    """Return the vectors on the servers of ``[stores.redis]``, and these, there or not.

    They have a connection of their own: a reply with many vectors would make answers wait.

    Raises:
        ConfigError: A setting cannot be used.
    """
    watch = PartWatch("embeddings.redis", clock=clock, events=events)
    servers = await open_servers(
        parse_address(url),
        credentials=credentials_of(table),
        tls=_tls_of(table),
        on_change=lambda state: watch.note(state.reason if isinstance(state, Open) else ""),
        timeout_seconds=table.timeout_seconds,
        sentinel_credentials=sentinel_credentials_of(table),
    )
    for node in servers.masters():
        eviction = await eviction_of(node)
        if eviction is not None and (wrong := unfit_for_vectors(eviction)):
            events.emit(Degraded("embeddings.redis", wrong))
    store = RedisEmbeddings(servers, prefix=prefix_of_vectors(table), ttl_seconds=ttl_seconds)
    return store, servers


def prefix_of_vectors(table: Redis) -> str:
    """Return what stands before ``emb:``: nothing, unless another prefix than ours was chosen."""
    return "" if table.prefix == Redis().prefix else f"{table.prefix}:"


def unfit_for_vectors(eviction: Eviction) -> str:
    """Return what of a server's settings keeps it from being a bounded cache; empty if nothing."""
    if eviction.max_bytes == 0:
        return (
            "maxmemory is 0: vectors fill the server's memory without bound;"
            " set maxmemory, and maxmemory-policy volatile-lru"
        )
    if eviction.policy == "noeviction":
        return (
            "maxmemory-policy is noeviction: when Redis is full, no more vectors are stored;"
            " set it to volatile-lru, or allkeys-lru where nothing else is there"
        )
    return ""


async def open_redis_points(
    table: Redis,
    url: str,
    embedder: "Embedder",
    *,
    search_seconds: float,
    clock: Clock,
    on_change: Callable[[str], None],
) -> "RedisPoints":
    """Return the points of an embedder on the server of ``[stores.redis]``, not started yet.

    It has a connection of its own: a slow search says nothing of the store, and is no reason to
    bypass it.

    Args:
        table: How to connect.
        url: Where.
        embedder: Whose vectors they are.
        search_seconds: What a search may take.
        clock: The time.
        on_change: Called with `RedisPoints.trouble`, also where it is as it was.

    Raises:
        ConfigError: A setting cannot be used.
    """
    from stepwell.stores.redis.points import PointLayout, RedisPoints  # noqa: PLC0415  (numpy)

    check_redis(table, url, searches=True)
    servers = await open_servers(
        parse_address(url),
        credentials=credentials_of(table),
        tls=_tls_of(table),
        on_change=lambda state: on_change(state.reason if isinstance(state, Open) else ""),
        timeout_seconds=search_seconds,
    )
    layout = PointLayout(table.prefix, embedder.model_id, embedder.dimensions)
    return RedisPoints(servers, layout, clock=clock)


def check_redis(table: Redis, url: str, *, searches: bool) -> None:
    """Check what can be checked without asking a server; ``searches``: for vectors, too.

    Raises:
        ConfigError: A setting cannot be used.
    """
    address = parse_address(url)
    credentials_of(table)
    sentinel_credentials_of(table)
    if address.is_encrypted:
        make_context(_tls_of(table))
    if searches and isinstance(address, Cluster):
        raise ConfigError(
            "semantic.index.kind is 'redis', and stores.redis.url is of a cluster;"
            " allowed there: 'own' or 'postgres'."
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
        eviction = await eviction_of(node)
        if eviction is None:
            continue
        if eviction.max_bytes == 0:
            yield (
                "maxmemory is 0: answers fill the server's memory without bound;"
                " set maxmemory, and maxmemory-policy volatile-lru"
            )
        elif eviction.policy == "noeviction":
            yield (
                "maxmemory-policy is noeviction: when Redis is full, nothing more is stored;"
                " set it to volatile-lru, or another volatile policy"
            )
        elif eviction.policy.startswith("allkeys"):
            yield (
                f"maxmemory-policy is {eviction.policy}: it may evict the change feed, and all"
                " answers with it; set it to volatile-lru, or another volatile policy"
            )


def _tls_of(table: Redis) -> Tls:
    return Tls(
        _path(table.ca_file), _path(table.cert_file), _path(table.key_file), table.check_hostname
    )


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()
