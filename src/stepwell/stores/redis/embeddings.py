"""`RedisEmbeddings`: vectors that machines share, of which Redis keeps what is used.

    <prefix>emb:<version>:<digest>      string: the value, or for a minute that it was deleted
    <prefix>embclaim:<version>:<digest> string: who computes it

The digest is in hexadecimal, as ``sha256sum`` prints it: with the bytes themselves a key of 1,536
numbers would take 0.4 % less. Every name has a time to live, so that a server that evicts what has
one can always make room.
"""

import asyncio
import random
import secrets
from collections.abc import Collection, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

from stepwell.core.embedding import ContentDigest, Deletions, Found, Item
from stepwell.core.errors import StoreError, StoreFull, StoreUnavailable
from stepwell.stores.redis.embedding_scripts import DELETE
from stepwell.stores.redis.line import PATIENCE_SECONDS
from stepwell.stores.redis.link import Refused, Reply
from stepwell.stores.redis.replies import integer, items
from stepwell.stores.redis.scanning import scan
from stepwell.stores.redis.scripts import LEASE, RELEASE
from stepwell.stores.redis.servers import Servers

T = TypeVar("T")

TOMBSTONE: Final = b"-"
"""Stands where something was deleted, so that ``SET NX`` of a late reader finds the place taken."""

TOMBSTONE_SECONDS: Final = 60

SLICE: Final = 256
"""Vectors in a command: 1.5 MB of 1,536 numbers, or 3 ms in which nobody else is answered."""

_JITTER: Final = 0.1
"""Share of the time to live by which keys written together part."""
_RETIRED_SECONDS: Final = (30, 90)
"""Keys of a retired version go some time in between, so that the server does not free all at once.
"""
_NO_MEMORY: Final = "OOM"
_NONE: Final[frozenset[ContentDigest]] = frozenset()
_TOKEN_BYTES: Final = 8


class RedisEmbeddings:
    """As `stepwell.core.embedding.EmbeddingStore` and `Claims`; no full store.

    A get costs one ``MGET`` for 256 vectors; in a cluster one ``GET`` each, which leave together.
    No get waits longer than the servers' time budget. One event loop; safe for many tasks.
    """

    tier: Final = "redis"

    def __init__(self, servers: Servers, *, prefix: str = "", ttl_seconds: float) -> None:
        """Ask nothing yet.

        Args:
            servers: Opened; closed with this.
            prefix: What all names begin with; the same for all that share.
            ttl_seconds: How long a vector stays that is not evicted before; a tenth more or less.
        """
        self._servers = servers
        self._prefix = prefix
        self._ttl_seconds = ttl_seconds
        self._token = secrets.token_bytes(_TOKEN_BYTES)

    async def get(self, version: str, digests: Sequence[ContentDigest]) -> Found:
        """As `EmbeddingStore.get`. If some servers of a cluster fail, without what is there.

        Raises:
            StoreError: No server answered.
        """
        beginning = vectors_of(self._prefix, version)
        values: dict[ContentDigest, bytes] = {}
        for at in range(0, len(digests), SLICE):
            named = {_name(beginning, digest): digest for digest in digests[at : at + SLICE]}
            for name, value in await self._read(list(named)):
                if isinstance(value, bytes) and value != TOMBSTONE:
                    values[named[name]] = value
        return Found(values, Deletions(0))

    async def put(
        self, version: str, items: Sequence[Item], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """As `EmbeddingStore.put`; refuses in silence what was deleted within a minute.

        Raises:
            StoreFull: Redis is full, and evicts nothing.
        """
        del deletions
        beginning = vectors_of(self._prefix, version)
        for at in range(0, len(items), SLICE):
            await _all(
                self._put(_name(beginning, it.digest), it.value) for it in items[at:][:SLICE]
            )
        return _NONE

    async def delete(self, version: str, digests: Sequence[ContentDigest]) -> int:
        """As `EmbeddingStore.delete`; also where Redis is full."""
        beginning = vectors_of(self._prefix, version)
        there = 0
        for at in range(0, len(digests), SLICE):
            there += sum(
                map(
                    integer,
                    await _all(
                        DELETE.run(
                            self._servers,
                            (_name(beginning, digest),),
                            *(TOMBSTONE, TOMBSTONE_SECONDS),
                            timeout_seconds=PATIENCE_SECONDS,
                        )
                        for digest in set(digests[at : at + SLICE])
                    ),
                )
            )
        return there

    async def retire(self, version: str) -> None:
        """As `EmbeddingStore.retire`: all keys of the version go within two minutes.

        Walks through all names on all servers, a page at a time.
        """
        for node in self._servers.masters():
            async for names in scan(node, vectors_of(self._prefix, version)):
                await _all(self._expire_soon(name) for name in names)

    async def claim(
        self, version: str, digests: Sequence[ContentDigest], milliseconds: int
    ) -> Collection[ContentDigest]:
        """As `Claims.claim`. A script each; they leave in one write."""
        beginning = self._claims_of(version)
        told = await _all(
            LEASE.run(self._servers, (_name(beginning, digest),), self._token, milliseconds)
            for digest in digests
        )
        return frozenset(digest for digest, got in zip(digests, told, strict=True) if integer(got))

    async def release(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `Claims.release`. A script each; they leave in one write."""
        beginning = self._claims_of(version)
        await _all(
            RELEASE.run(
                self._servers,
                (_name(beginning, digest),),
                self._token,
                timeout_seconds=PATIENCE_SECONDS,
            )
            for digest in digests
        )

    async def aclose(self) -> None:
        """As `EmbeddingStore.aclose`."""
        await self._servers.aclose()

    async def _read(self, names: list[bytes]) -> list[tuple[bytes, Reply]]:
        groups = self._servers.together(names)
        if len(groups) == 1:
            return list(zip(names, await self._read_group(names), strict=True))
        told = await asyncio.gather(*map(self._read_group, groups), return_exceptions=True)
        errors = [reply for reply in told if isinstance(reply, BaseException)]
        if errors and (len(errors) == len(told) or not isinstance(errors[0], StoreError)):
            raise errors[0]
        return [
            pair
            for group, replies in zip(groups, told, strict=True)
            if not isinstance(replies, BaseException)
            for pair in zip(group, replies, strict=True)
        ]

    async def _read_group(self, names: Sequence[bytes]) -> list[Reply]:
        replies = items(await self._servers.ask(names[0], "MGET", *names))
        if len(replies) != len(names):
            raise StoreUnavailable(f"the server gave {len(replies)} replies for {len(names)} keys")
        return replies

    async def _put(self, name: bytes, value: bytes) -> None:
        seconds = max(1, round(self._ttl_seconds * random.uniform(1 - _JITTER, 1 + _JITTER)))  # noqa: S311
        try:
            await self._servers.ask(
                *(name, "SET", name, value, "EX", seconds, "NX"), timeout_seconds=PATIENCE_SECONDS
            )
        except Refused as error:
            if error.code == _NO_MEMORY:
                raise StoreFull(f"Redis has no memory left: {error}") from error
            raise

    async def _expire_soon(self, name: bytes) -> None:
        seconds = random.randint(*_RETIRED_SECONDS)  # noqa: S311
        await self._servers.ask(
            *(name, "EXPIRE", name, seconds, "LT"), timeout_seconds=PATIENCE_SECONDS
        )

    def _claims_of(self, version: str) -> bytes:
        return f"{self._prefix}embclaim:{version}:".encode()


def vectors_of(prefix: str, version: str) -> bytes:
    """Return what the names of a version's vectors begin with."""
    return f"{prefix}emb:{version}:".encode()


def _name(beginning: bytes, digest: ContentDigest) -> bytes:
    return b"%b%b" % (beginning, digest.hex().encode())


async def _all(asked: Iterable[Coroutine[Any, Any, T]]) -> Sequence[T]:
    """Return what all come to; raise the first error once all are over."""
    told = await asyncio.gather(*asked, return_exceptions=True)
    for reply in told:
        if isinstance(reply, BaseException):
            raise reply
    return cast("Sequence[T]", told)
