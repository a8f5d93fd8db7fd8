"""Compares the tiers of vectors on live servers: Redis must hold a part of the full store."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from stepwell.assembly.embedding import RedisPlace
from stepwell.assembly.redis import unfit_for_vectors
from stepwell.core.embedding import ContentDigest, FullStore, VectorKind
from stepwell.embedding.cache.value import unpack
from stepwell.stores.redis.embedding_survey import NO_END, Standing

T = TypeVar("T")

SLICE: Final = 256

SETTLE_SECONDS: Final = 1.0
"""What differs is looked at again so much later: a write goes to the full store first, and so does
a deletion."""

_DELETED: Final = 10_000
"""Deletions of a version that are looked after."""
_GOING_MILLISECONDS: Final = 120_000
"""Keys of a version that was retired go within this time."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What is not as it must be."""

    what: str
    """``missing``: in Redis and not in the full store, or deleted there. ``unequal``: other bytes.
    ``retired``: of a version that is not registered, and not about to go. ``endless``: a key that
    never expires. ``foreign``: a name or a type that is none of ours. ``damaged``: in the full
    store, and no vector of its version. ``eviction``: a server's settings."""
    where: str
    """A key, or a server and what is wrong with it."""
    version: str = ""
    digest: ContentDigest | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """What an audit has found."""

    full_read: int
    """Vectors of the full store that were read and checked."""
    redis_keys: Mapping[str, int]
    """All there are, by version."""
    compared: int
    """Keys of Redis that were held against the full store."""
    deletions: int
    """Of late, that were looked for in Redis."""
    differences: Sequence[Difference]


class Audit:
    """Compares the places where vectors stand. One event loop.

    Every method raises `StoreError` where a place does not answer: then nothing is proved.
    """

    def __init__(
        self, full: FullStore, redis: RedisPlace | None, *, settle_seconds: float = SETTLE_SECONDS
    ) -> None:
        """Compare nothing yet."""
        self._full = full
        self._redis = redis
        self._settle_seconds = settle_seconds

    async def run(self, at_most: int) -> Audited:
        """Compare ``at_most`` keys of Redis, and as many vectors of each version by themselves.

        Changes nothing. Walks through all names in Redis.
        """
        kinds = await self._kinds()
        read, differences = 0, list[Difference]()
        for kind in kinds.values():
            digests = await self._full.sample(kind.version, at_most)
            differences += await self._damaged(kind, digests)
            read += len(digests)
        if self._redis is None:
            return Audited(read, {}, 0, 0, differences)
        sampled = await self._redis.survey.sample(at_most)
        deleted = await self._deleted(self._redis, kinds)
        standing = [*sampled.standing, *await self._redis.survey.look(deleted)]
        differences += await self._differing(self._redis, standing, kinds)
        differences += await _unfit(self._redis)
        return Audited(read, sampled.keys, len(sampled.standing), len(deleted), differences)

    async def repair(self, audited: Audited) -> int:
        """Remove from Redis what differs and could be served; return how many that was."""
        by_version: defaultdict[str, list[ContentDigest]] = defaultdict(list)
        for difference in audited.differences:
            if difference.digest is not None and difference.what != _DAMAGED:
                by_version[difference.version].append(difference.digest)
        removed = 0
        for version, digests in by_version.items():
            if self._redis is not None:
                removed += await self._redis.store.delete(version, digests)
        return removed

    async def _kinds(self) -> Mapping[str, VectorKind]:
        return {figures.kind.version: figures.kind for figures in await self._full.versions()}

    async def _damaged(
        self, kind: VectorKind, digests: Sequence[ContentDigest]
    ) -> Sequence[Difference]:
        return [
            Difference(_DAMAGED, f"{kind.version}:{digest.hex()}", kind.version, digest)
            for some in _slices(digests)
            for digest, value in (await self._full.get(kind.version, some)).values.items()
            if unpack(value, kind) is None
        ]

    async def _deleted(self, redis: RedisPlace, kinds: Mapping[str, VectorKind]) -> list[bytes]:
        """Return the keys of what was deleted of late."""
        return [
            redis.survey.name_of(version, digest)
            for version in kinds
            for digest in await self._full.deleted(version, _DELETED)
        ]

    async def _differing(
        self, redis: RedisPlace, standing: Sequence[Standing], kinds: Mapping[str, VectorKind]
    ) -> Sequence[Difference]:
        """Return what differs now, and still does when what is under way has settled."""
        names = {suspect.where for suspect in await self._compared(standing, kinds)}
        if not names:
            return ()
        await asyncio.sleep(self._settle_seconds)
        again = await redis.survey.look([name.encode(errors=_ESCAPED) for name in names])
        return await self._compared(again, await self._kinds())

    async def _compared(
        self, standing: Sequence[Standing], kinds: Mapping[str, VectorKind]
    ) -> Sequence[Difference]:
        by_version: defaultdict[str, list[Standing]] = defaultdict(list)
        differences = []
        for one in standing:
            if what := _wrong_by_itself(one, kinds):
                differences.append(_difference(what, one))
            elif one.version in kinds:
                by_version[one.version].append(one)
        for version, ours in by_version.items():
            for some in _slices(ours):
                digests = [one.digest for one in some if one.digest is not None]
                found = (await self._full.get(version, digests)).values
                differences += [
                    _difference("unequal" if one.digest in found else "missing", one)
                    for one in some
                    if one.digest is None or found.get(one.digest) != one.value
                ]
        return differences


async def _unfit(redis: RedisPlace) -> Sequence[Difference]:
    evictions = await redis.survey.evictions()
    return [
        Difference("eviction", f"{server}: {wrong}")
        for server, eviction in evictions.items()
        if (wrong := unfit_for_vectors(eviction))
    ]


def _wrong_by_itself(one: Standing, kinds: Mapping[str, VectorKind]) -> str:
    """Return what is wrong with a key, whatever the full store has; empty if nothing."""
    if one.digest is None or one.value is None:
        return "foreign"
    if one.milliseconds == NO_END:
        return "endless"
    if one.version not in kinds:
        return "retired" if one.milliseconds > _GOING_MILLISECONDS else ""
    return ""


def _difference(what: str, one: Standing) -> Difference:
    return Difference(what, one.name.decode(errors=_ESCAPED), one.version, one.digest)


def _slices(all_of_them: Sequence[T]) -> Iterator[Sequence[T]]:
    return (all_of_them[at : at + SLICE] for at in range(0, len(all_of_them), SLICE))


_DAMAGED: Final = "damaged"
_ESCAPED: Final = "surrogateescape"
