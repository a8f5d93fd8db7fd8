"""Places where vectors stand, opened for tests: patiently, unless it is said otherwise."""

from collections.abc import Sequence

from stepwell.core.clock import Clock, SystemClock
from stepwell.core.embedding import Item
from stepwell.stores.postgres.database import Database
from stepwell.stores.postgres.dialing import Address, Dialer
from stepwell.stores.postgres.embeddings.schema import EmbeddingSchema
from stepwell.stores.postgres.embeddings.store import SESSION, PostgresEmbeddings
from stepwell.stores.redis.address import Credentials, parse_address
from stepwell.stores.redis.embeddings import RedisEmbeddings
from stepwell.stores.redis.servers import open_servers
from stepwell.stores.redis.tls import Tls
from stepwell.testing.embedding_contract import make_digest
from support.redis_client import Changes
from support.redis_servers import PATIENCE_SECONDS


async def open_postgres_embeddings(
    url: str,
    prefix: str = "stepwell",
    *,
    timeout_seconds: float = PATIENCE_SECONDS,
    write_seconds: float = PATIENCE_SECONDS,
    clock: Clock | None = None,
    changes: Changes | None = None,
) -> PostgresEmbeddings:
    """Open the vectors on PostgreSQL."""
    schema = EmbeddingSchema(prefix)
    told = changes or Changes()
    reading = Dialer(Address(url), timeout_seconds, schema.prepare, SESSION)
    writing = Dialer(Address(url), write_seconds, schema.prepare, {})
    store = PostgresEmbeddings(
        schema,
        Database(reading, connections=4, on_change=told),
        Database(writing, connections=2, on_change=told),
        clock=clock or SystemClock(),
    )
    await store.start()
    return store


async def open_redis_embeddings(
    url: str,
    prefix: str = "",
    *,
    timeout_seconds: float = PATIENCE_SECONDS,
    ttl_seconds: float = 3_600.0,
    changes: Changes | None = None,
) -> RedisEmbeddings:
    """Open the vectors on a server of Redis's kind, or a cluster."""
    servers = await open_servers(
        parse_address(url),
        credentials=Credentials(),
        tls=Tls(),
        on_change=changes or Changes(),
        timeout_seconds=timeout_seconds,
        connect_timeout_seconds=PATIENCE_SECONDS,
    )
    return RedisEmbeddings(servers, prefix=prefix, ttl_seconds=ttl_seconds)


def make_items(count: int, *, beginning: str = "text", size_bytes: int = 200) -> Sequence[Item]:
    """Return vectors of so many texts; the value says whose it is."""
    texts = [f"{beginning} {number}" for number in range(count)]
    return [
        Item(make_digest(text), (make_digest(text) * size_bytes)[:size_bytes], text)
        for text in texts
    ]
