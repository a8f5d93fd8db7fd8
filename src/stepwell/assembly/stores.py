"""Opens where entries are kept."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Union

from stepwell.assembly.extras import extra_for
from stepwell.assembly.settings import Settings
from stepwell.core.clock import Clock
from stepwell.core.ports import EventSink, EvictionPolicy
from stepwell.stores.alone import Alone
from stepwell.stores.disk.store import DiskStore
from stepwell.stores.eviction.adaptive import Adaptive
from stepwell.stores.eviction.lfu import Lfu
from stepwell.stores.eviction.lru import Lru
from stepwell.stores.memory import MemoryStore

if TYPE_CHECKING:
    from stepwell.stores.redis.store import RedisStore

ENTRIES_DIRECTORY = "entries"

LINGER_SECONDS = 0.005
"""Answers of so long are written to disk together: nobody waits for that, and a commit for each
costs as much again as all the rest of a miss."""

AnyStore = Union[DiskStore, Alone, "RedisStore"]

POLICIES: Mapping[str, Callable[[], EvictionPolicy]] = {
    "adaptive": Adaptive,
    "lru": Lru,
    "lfu": Lfu,
}


def make_memory(settings: Settings, clock: Clock, events: EventSink) -> MemoryStore:
    """Return a worker's own tier."""
    table = settings.stores.memory
    return MemoryStore(
        POLICIES[table.policy](),
        max_entries=table.max_entries,
        max_bytes=table.max_bytes,
        clock=clock,
        events=events,
    )


async def open_store(
    settings: Settings,
    data_dir: Path | None,
    memory: MemoryStore,
    clock: Clock,
    events: EventSink,
) -> AnyStore:
    """Return the store that all workers share.

    Args:
        settings: Checked.
        data_dir: ``None``: nothing is kept beyond the process.
        memory: Stands for the store where nothing is shared.
        clock: The time.
        events: Hears of what fails.

    Raises:
        ConfigError: A setting cannot be used.
        StoreUnavailable: The data directory cannot be used.
    """
    redis, table = settings.stores.redis, settings.stores.disk
    if redis.url is not None:
        return await _open_redis()(redis, redis.url, clock=clock, events=events)
    if data_dir is None or not table.enabled:
        return Alone(memory)
    return await DiskStore.open(
        data_dir / ENTRIES_DIRECTORY,
        max_bytes=table.max_bytes,
        clock=clock,
        events=events,
        timeout_seconds=table.timeout_seconds,
        linger_seconds=LINGER_SECONDS,
    )


def _open_redis() -> "Callable[..., Awaitable[RedisStore]]":
    with extra_for("stores.redis.url is set", "redis"):
        from stepwell.assembly.redis import open_redis  # noqa: PLC0415  (an extra)
    return open_redis
