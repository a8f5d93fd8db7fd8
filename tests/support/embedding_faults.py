"""A store of vectors that fails, waits and lies as it is told."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stepwell.core.clock import Clock
from stepwell.core.embedding import ContentDigest, Deletions, Found, Item
from stepwell.core.errors import StoreError, StoreUnavailable
from stepwell.testing.embedding_stores import MemoryEmbeddings


@dataclass
class Faults:
    """What goes wrong."""

    get: StoreError | None = None
    put: StoreError | None = None
    delete: StoreError | None = None
    damage: set[ContentDigest] = field(default_factory=set)
    """Comes out with a bit flipped."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Puts wait for it."""

    def __post_init__(self) -> None:
        self.gate.set()

    def gone(self) -> None:
        """Fail at everything."""
        self.get = self.put = self.delete = StoreUnavailable("gone")

    def back(self) -> None:
        """Fail at nothing."""
        self.get = self.put = self.delete = None


class FaultyStore(MemoryEmbeddings):
    """As `MemoryEmbeddings`, with faults."""

    def __init__(self, clock: Clock, *, tier: str = "disk") -> None:
        super().__init__(clock, tier=tier)
        self.faults = Faults()
        self.gets = 0
        self.is_closed = False

    def held(self, version: str) -> Mapping[ContentDigest, bytes]:
        """Return all it has of a version."""
        known = self._versions.get(version)
        return {} if known is None else {item.digest: item.value for item in known.items.values()}

    async def get(self, version: str, digests: Sequence[ContentDigest]) -> Found:
        """As `EmbeddingStore.get`."""
        self.gets += 1
        if self.faults.get is not None:
            raise self.faults.get
        found = await super().get(version, digests)
        values = {
            digest: _flipped(value) if digest in self.faults.damage else value
            for digest, value in found.values.items()
        }
        return Found(values, found.deletions)

    async def put(
        self, version: str, items: Sequence[Item], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """As `EmbeddingStore.put`."""
        await self.faults.gate.wait()
        if self.faults.put is not None:
            raise self.faults.put
        return await super().put(version, items, deletions)

    async def delete(self, version: str, digests: Sequence[ContentDigest]) -> int:
        """As `EmbeddingStore.delete`."""
        if self.faults.delete is not None:
            raise self.faults.delete
        self.faults.damage -= set(digests)
        return await super().delete(version, digests)

    async def aclose(self) -> None:
        """As `EmbeddingStore.aclose`."""
        self.is_closed = True


class FaultyCache:
    """A cache in front of it: knows no versions, counts no deletions, has tombstones."""

    tier = "redis"

    def __init__(self) -> None:
        self.faults = Faults()
        self.values: dict[tuple[str, ContentDigest], bytes] = {}
        self.tombstones: set[tuple[str, ContentDigest]] = set()
        self.is_closed = False

    async def get(self, version: str, digests: Sequence[ContentDigest]) -> Found:
        """As `EmbeddingStore.get`."""
        if self.faults.get is not None:
            raise self.faults.get
        await asyncio.sleep(0)
        known = [digest for digest in digests if (version, digest) in self.values]
        return Found({digest: self.values[version, digest] for digest in known}, Deletions(0))

    async def put(
        self, version: str, items: Sequence[Item], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """As `EmbeddingStore.put`."""
        await self.faults.gate.wait()
        if self.faults.put is not None:
            raise self.faults.put
        places = {item.digest: (version, item.digest) for item in items}
        late = {digest for digest, place in places.items() if place in self.tombstones}
        for item in items:
            if item.digest not in late:
                self.values.setdefault(places[item.digest], item.value)
        return late

    async def delete(self, version: str, digests: Sequence[ContentDigest]) -> int:
        """As `EmbeddingStore.delete`."""
        if self.faults.delete is not None:
            raise self.faults.delete
        places = [(version, digest) for digest in digests]
        self.tombstones.update(places)
        return sum(self.values.pop(place, None) is not None for place in places)

    async def retire(self, version: str) -> None:
        """As `EmbeddingStore.retire`."""
        self.values = {place: value for place, value in self.values.items() if place[0] != version}

    async def aclose(self) -> None:
        """As `EmbeddingStore.aclose`."""
        self.is_closed = True


def _flipped(value: bytes) -> bytes:
    return value[:-1] + bytes([value[-1] ^ 1])


class ClaimBoard:
    """Claims as several processes see them; each has a `member`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.claimed: dict[tuple[str, ContentDigest], tuple[object, float]] = {}
        self.fault: StoreError | None = None

    def member(self) -> "Member":
        """Return claims of one process."""
        return Member(self)


class Member:
    """Implements `Claims` for one process."""

    def __init__(self, board: ClaimBoard) -> None:
        self._board = board

    async def claim(
        self, version: str, digests: Sequence[ContentDigest], milliseconds: int
    ) -> Collection[ContentDigest]:
        """As `Claims.claim`."""
        board = self._board
        if board.fault is not None:
            raise board.fault
        await asyncio.sleep(0)
        now = board.clock.monotonic()
        until = now + milliseconds / 1000
        free = [
            digest
            for digest in digests
            if board.claimed.get((version, digest), (None, 0.0))[1] <= now
        ]
        board.claimed.update(((version, digest), (self, until)) for digest in free)
        return free

    async def release(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `Claims.release`."""
        board = self._board
        if board.fault is not None:
            raise board.fault
        for digest in digests:
            if board.claimed.get((version, digest), (None, 0.0))[0] is self:
                del board.claimed[version, digest]
