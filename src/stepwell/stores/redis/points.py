"""`RedisPoints`: points that Redis or Valkey searches, where it has vector search.

    <prefix>:v:<embedder>        the index
    <prefix>:v:<embedder>:<key>  hash: a point; expires with its entry
    <prefix>:l:<embedder>        who leads

Commands are those that Redis's own search (RediSearch) and valkey-search share. Vectors of two
embedders are never in one index.
"""

import asyncio
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from stepwell.core.clock import Clock
from stepwell.core.entry import Selector
from stepwell.core.errors import ConfigError, StoreUnavailable
from stepwell.core.names import CacheKey, Position
from stepwell.core.points import Candidate, Point
from stepwell.core.vectors import Vector
from stepwell.stores.breaker import Open
from stepwell.stores.named import digest, named_by
from stepwell.stores.redis.layout import key_of
from stepwell.stores.redis.link import Refused, Reply, Word
from stepwell.stores.redis.point_scripts import ADD, REMOVE_OLDER
from stepwell.stores.redis.replies import integer, items, pairs, string
from stepwell.stores.redis.scripts import LEASE, RELEASE
from stepwell.stores.redis.servers import Servers

WRITE_SECONDS = 5.0
"""What anything but a search may take; nobody waits for it."""

PAGE = 500
"""Points that are looked up for removal at a time."""

_NO_SEARCH = (
    "the server of stores.redis has no vector search (FT.CREATE); use Redis 8, Redis Stack, or"
    ' Valkey with valkey-search, or set semantic.index.kind = "own"'
)
_HNSW: tuple[Word, ...] = ("M", 16, "EF_CONSTRUCTION", 128, "EF_RUNTIME", 100)
_NAMED = ("key", "namespace", "model", "class", "tags")
"""Fields for what `named_by` names, in its order."""

_SHORT_BYTES = 8
"""Of a key, to be found by: two that share them (1 in 2**64) would be invalidated together."""

_FACTS = ("text", "temperature", "expires", "position", "distance")


@dataclass(frozen=True, slots=True)
class PointLayout:
    """The names of one embedder's points."""

    prefix: str
    model_id: str
    dimensions: int

    @property
    def index(self) -> bytes:
        """Name of the index."""
        return f"{self.prefix}:v:{self._embedder()}".encode()

    @property
    def lease(self) -> bytes:
        """Name of what says who leads."""
        return f"{self.prefix}:l:{self._embedder()}".encode()

    def point(self, key: CacheKey) -> bytes:
        """Return the name of a point; `stepwell.stores.redis.layout.key_of` reads it."""
        return b"%b:%b" % (self.index, urlsafe_b64encode(key)[:-1])

    def _embedder(self) -> str:
        facts = f"{self.dimensions} {self.model_id}"
        return blake2b(facts.encode(), digest_size=8).hexdigest()


class RedisPoints:
    """A `PointServer` on a server of Redis's kind, but a cluster. One event loop."""

    def __init__(self, servers: Servers, layout: PointLayout, *, clock: Clock) -> None:
        """Do nothing until `start`.

        Args:
            servers: Opened for this, and closed with it; their time budget is that of a search.
            layout: What stands under which name.
            clock: The time.
        """
        self._servers = servers
        self._layout = layout
        self._now = clock.now
        self._token = secrets.token_bytes(8)
        self._has_search = True

    async def start(self) -> None:
        """Make the index if it is missing; if the server is not there, `lead` does.

        Raises:
            ConfigError: The server has no vector search.
        """
        try:
            await self._make_index()
        except StoreUnavailable as error:
            if not self._has_search:
                raise ConfigError(f"semantic.index.kind is 'redis': {error}") from error

    @property
    def trouble(self) -> str:
        """As `PointServer.trouble`."""
        state = self._servers.state
        if isinstance(state, Open):
            return state.reason
        return "" if self._has_search else _NO_SEARCH

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        """As `PointServer.search`. One command."""
        near = f"(@partition:{{{partition.hex()}}})=>[KNN {k} @vector $vector AS distance]"
        blob = np.asarray(vector, "<f4").tobytes()
        name = self._layout.index
        told = await self._servers.ask(
            name,
            *("FT.SEARCH", name, near, "RETURN", len(_FACTS), *_FACTS),
            *("LIMIT", 0, k, "PARAMS", 2, "vector", blob, "DIALECT", 2),
        )
        found = [one for one in _candidates(told) if one.expires_at > now]
        return sorted(found, key=lambda one: -one.similarity)

    async def add(self, point: Point, vector: Vector) -> None:
        """As `PointServer.add`. One script."""
        milliseconds = max(1, int((point.expires_at - self._now()) * 1000))
        words: dict[str, Word] = {
            "partition": point.partition.hex(),
            "key": _short(point.key),
            "namespace": point.group.namespace.hex(),
            "model": digest(point.group.model).hex(),
            "class": digest(point.group.request_class).hex(),
            "text": point.text.encode(errors="surrogatepass"),
            "position": point.position,
            "expires": repr(point.expires_at),
            "vector": np.asarray(vector, "<f4").tobytes(),
        }
        if point.temperature is not None:
            words["temperature"] = repr(point.temperature)
        if point.tags:
            words["tags"] = ",".join(digest(tag).hex() for tag in point.tags)
        fields = (word for pair in words.items() for word in pair)
        await ADD.run(
            self._servers,
            (self._layout.point(point.key),),
            *(point.position, repr(point.expires_at), milliseconds, *fields),
            timeout_seconds=WRITE_SECONDS,
        )

    async def remove(self, key: CacheKey) -> None:
        """As `PointServer.remove`."""
        name = self._layout.point(key)
        await self._write(name, "UNLINK", name)

    async def remove_where(self, selector: Selector, before: Position) -> None:
        """As `PointServer.remove_where`, some hundred at a time."""
        name = self._layout.index
        while True:
            told = await self._write(
                name,
                *("FT.SEARCH", name, _query(selector, before), "NOCONTENT"),
                *("LIMIT", 0, PAGE, "DIALECT", 2),
            )
            names = [string(item) for item in items(told)[1:]]
            removed = await asyncio.gather(*(self._remove_older(one, before) for one in names))
            if not any(removed):
                return

    async def _remove_older(self, name: bytes, before: Position) -> bool:
        told = await REMOVE_OLDER.run(self._servers, (name,), before, timeout_seconds=WRITE_SECONDS)
        return bool(integer(told))

    async def remove_expired(self, now: float) -> None:
        """As `PointServer.remove_expired`: they go by themselves."""
        del now

    async def expiries(self, keys: Sequence[CacheKey]) -> Mapping[CacheKey, float]:
        """As `PointServer.expiries`. One command for each, all at once."""
        names = [self._layout.point(key) for key in keys]
        told = await asyncio.gather(*(self._write(name, "HGET", name, "expires") for name in names))
        return {
            key: float(string(one)) for key, one in zip(keys, told, strict=True) if one is not None
        }

    async def lead(self, seconds: float) -> bool:
        """As `PointServer.lead`; makes the index anew if the server has lost it."""
        await self._make_index()
        told = await LEASE.run(
            self._servers,
            (self._layout.lease,),
            *(self._token, int(seconds * 1000)),
            timeout_seconds=WRITE_SECONDS,
        )
        return bool(integer(told))

    async def resign(self) -> None:
        """As `PointServer.resign`."""
        await RELEASE.run(
            self._servers, (self._layout.lease,), self._token, timeout_seconds=WRITE_SECONDS
        )

    async def aclose(self) -> None:
        """As `PointServer.aclose`."""
        await self._servers.aclose()

    async def _write(self, name: bytes, *words: Word) -> Reply:
        return await self._servers.ask(name, *words, timeout_seconds=WRITE_SECONDS)

    async def _make_index(self) -> None:
        """Make the index, unless it is there."""
        name, size = self._layout.index, self._layout.dimensions
        vector = ("TYPE", "FLOAT32", "DIM", size, "DISTANCE_METRIC", "COSINE", *_HNSW)
        try:
            await self._write(
                name,
                *("FT.CREATE", name, "ON", "HASH", "PREFIX", 1, name + b":", "SCHEMA"),
                *(word for tag in ("partition", *_NAMED) for word in (tag, "TAG")),
                *("position", "NUMERIC", "vector", "VECTOR", "HNSW", len(vector), *vector),
            )
        except Refused as error:
            self._has_search = "unknown command" not in str(error).lower()
            if not self._has_search:
                raise StoreUnavailable(_NO_SEARCH) from error
            if "already exists" not in str(error).lower():
                raise
        else:
            self._has_search = True


def _query(selector: Selector, before: Position) -> str:
    """Return the query for points of entries that ``selector`` means."""
    key, *others = named_by(selector)
    values = (None if key is None else key[:_SHORT_BYTES], *others)
    named = zip(_NAMED, values, strict=True)
    tags = [f"@{name}:{{{value.hex()}}}" for name, value in named if value is not None]
    return " ".join((f"@position:[-inf ({before}]", *tags))


def _short(key: CacheKey) -> str:
    return key[:_SHORT_BYTES].hex()


def _candidates(told: Reply) -> Iterator[Candidate]:
    """Yield what was found, but for what has gone since."""
    _, *found = items(told)
    for at in range(0, len(found) - 1, 2):
        facts = dict(pairs(found[at + 1])) if found[at + 1] else {}
        if b"expires" not in facts or b"distance" not in facts:
            continue
        temperature = facts.get(b"temperature")
        yield Candidate(
            key_of(string(found[at])),
            facts[b"text"].decode(errors="surrogatepass"),
            None if temperature is None else float(temperature),
            float(facts[b"expires"]),
            Position(int(facts[b"position"])),
            min(max(1.0 - float(facts[b"distance"]), 0.0), 1.0),
        )
