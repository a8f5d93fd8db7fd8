"""Opens the places where vectors stand. Needs numpy."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwell.assembly.extras import extra_for
from stepwell.assembly.part_watch import PartWatch
from stepwell.assembly.settings import Postgres, Redis, Settings
from stepwell.core.clock import Clock
from stepwell.core.embedding import FullStore
from stepwell.core.ports import EventSink
from stepwell.embedding.cache.tiers import Stores
from stepwell.stores.breaker import Open
from stepwell.stores.disk.embeddings.store import DiskEmbeddings

if TYPE_CHECKING:
    from stepwell.stores.postgres.embeddings.store import PostgresEmbeddings
    from stepwell.stores.redis.embedding_survey import Survey
    from stepwell.stores.redis.embeddings import RedisEmbeddings
    from stepwell.stores.redis.servers import Servers

REDIS_PART = "embeddings.redis"
POSTGRES_PART = "embeddings.postgres"

READ_SECONDS = 0.25
"""What asking PostgreSQL or a disk for vectors may take; Redis has a setting of its own."""

DISK_BYTES = 4 << 30
TTL_SECONDS = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where vectors stand outside of this process."""

    directory: Path | None
    """On disk, where there is no PostgreSQL; ``None``: then nowhere."""
    redis: Redis = field(default_factory=Redis)
    """Used if it has a URL."""
    postgres: Postgres = field(default_factory=Postgres)
    """Used if it has a URL."""
    disk_bytes: int = DISK_BYTES
    """Bound of all vectors on disk."""
    ttl_seconds: float = TTL_SECONDS
    """How long Redis keeps a vector."""
    read_seconds: float = READ_SECONDS
    """What asking PostgreSQL or the disk for vectors may take."""


@dataclass(frozen=True, slots=True, eq=False)
class RedisPlace:
    """Vectors in Redis, and the servers that they are on."""

    store: "RedisEmbeddings"
    servers: "Servers"
    survey: "Survey"
    """Looks at what is there."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenedPlaces:
    """What `open_places` has opened."""

    redis: RedisPlace | None
    postgres: "PostgresEmbeddings | None"
    disk: DiskEmbeddings | None

    @property
    def full(self) -> FullStore | None:
        """The store that has every vector."""
        return self.postgres or self.disk

    @property
    def stores(self) -> Stores:
        """As a cache wants them, which then closes them."""
        redis = None if self.redis is None else self.redis.store
        return Stores(
            caches=() if redis is None else (redis,),
            full=self.full,
            claims=redis or self.postgres or self.disk,
        )

    def troubles(self) -> Mapping[str, str]:
        """Return which places are not, or not wholly, used just now, and why."""
        told = {}
        if self.redis is not None and isinstance(state := self.redis.servers.state, Open):
            told[REDIS_PART] = state.reason
        if self.postgres is not None and self.postgres.trouble:
            told[POSTGRES_PART] = self.postgres.trouble
        return told

    async def aclose(self) -> None:
        """Close the stores, where no cache does. May be called twice."""
        stores = self.stores
        for store in (*stores.caches, *(() if stores.full is None else (stores.full,))):
            await store.aclose()


def places_of(settings: Settings, directory: Path | None) -> Places:
    """Return where the settings keep vectors; if on disk, in ``directory``."""
    table, stores = settings.embedding, settings.stores
    return Places(
        directory,
        stores.redis if table.redis else Redis(),
        stores.postgres if table.postgres else Postgres(),
        disk_bytes=table.disk_bytes,
        ttl_seconds=table.ttl_seconds,
    )


def patient(places: Places, seconds: float) -> Places:
    """Return the same places for somebody who has time: no call is late before so long."""
    redis = msgspec.structs.replace(places.redis, timeout_seconds=seconds)
    return replace(places, redis=redis, read_seconds=seconds)


async def open_places(places: Places, *, clock: Clock, events: EventSink) -> OpenedPlaces:
    """Open the places; servers, whether they are there or not.

    Args:
        places: Which.
        clock: The time.
        events: Hears of what fails, and of settings of a server that will give trouble.

    Raises:
        ConfigError: A setting cannot be used.
        StoreUnavailable: The directory cannot be used.
        StoreFull: It has no space.
    """
    async with AsyncExitStack() as stack:
        redis = await _open_redis(places, clock, events)
        if redis is not None:
            stack.push_async_callback(redis.store.aclose)
        postgres = await _open_postgres(places, clock, events)
        disk = None
        if postgres is None and places.directory is not None:
            disk = await DiskEmbeddings.open(
                places.directory,
                max_bytes=places.disk_bytes,
                clock=clock,
                events=events,
                timeout_seconds=places.read_seconds,
            )
        stack.pop_all()
    return OpenedPlaces(redis, postgres, disk)


async def _open_redis(places: Places, clock: Clock, events: EventSink) -> RedisPlace | None:
    table = places.redis
    if table.url is None:
        return None
    with extra_for("stores.redis.url is set", "redis"):
        from stepwell.assembly.redis import open_redis_embeddings, prefix_of_vectors  # noqa: PLC0415
        from stepwell.stores.redis.embedding_survey import Survey  # noqa: PLC0415
    store, servers = await open_redis_embeddings(
        table, table.url, ttl_seconds=places.ttl_seconds, clock=clock, events=events
    )
    return RedisPlace(store, servers, Survey(servers, prefix=prefix_of_vectors(table)))


async def _open_postgres(
    places: Places, clock: Clock, events: EventSink
) -> "PostgresEmbeddings | None":
    table = places.postgres
    if table.url is None:
        return None
    with extra_for("stores.postgres.url is set", "postgres"):
        from stepwell.assembly.postgres import make_postgres_embeddings  # noqa: PLC0415
    watch = PartWatch(POSTGRES_PART, clock=clock, events=events)
    store = make_postgres_embeddings(
        table,
        table.url,
        read_seconds=places.read_seconds,
        clock=clock,
        on_change=watch.note,
    )
    try:
        await store.start()
    except BaseException:
        await store.aclose()
        raise
    return store
