"""The smallest and nearest tier: vectors in this process, those used last."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from stepwell.core.clock import Clock
from stepwell.core.embedding import ContentDigest, Deletions
from stepwell.embedding.cache.value import Embedding

Place = tuple[bytes, ContentDigest]
"""Fingerprint of the kind, and digest."""

_ENTRY_BYTES: Final = 512
"""What an entry costs beside its numbers: array, bytes, dictionary, clock."""

_DELETED_AT_MOST: Final = 4096


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """What is held."""

    entries: int
    bytes: int


class Memory:
    """A bounded LRU. For one event loop. Each call costs microseconds.

    Like a full store it counts deletions, and refuses what was begun before them.
    """

    def __init__(self, max_bytes: int, *, max_seconds: float | None, clock: Clock) -> None:
        """Start empty.

        Args:
            max_bytes: 0: nothing is ever held.
            max_seconds: How long a vector may answer after another process has deleted it;
                ``None``: there is no other process.
            clock: The time.
        """
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._clock = clock
        self._entries: OrderedDict[Place, tuple[Embedding, float]] = OrderedDict()
        self._bytes = 0
        self._deletions = 0
        self._deleted: OrderedDict[Place, int] = OrderedDict()
        self._known_since = 0
        """Deletions up to this one are not known by place any more."""

    @property
    def deletions(self) -> Deletions:
        """How many there were; to be learned before anything is begun."""
        return Deletions(self._deletions)

    @property
    def figures(self) -> MemoryFigures:
        """What is held."""
        return MemoryFigures(len(self._entries), self._bytes)

    def get(self, place: Place) -> Embedding | None:
        """Return what is held there."""
        entry = self._entries.get(place)
        if entry is None:
            return None
        if self._max_seconds is not None and self._clock.monotonic() >= entry[1]:
            self._drop(place)
            return None
        self._entries.move_to_end(place)
        return entry[0]

    def put(self, found: Mapping[Place, Embedding], deletions: Deletions) -> None:
        """Hold what was ``found``, for which one began at ``deletions``."""
        if not self._max_bytes:
            return
        until = self._clock.monotonic() + (self._max_seconds or 0.0)
        for place, embedding in found.items():
            size = embedding.vector.nbytes + _ENTRY_BYTES
            if place in self._entries or size > self._max_bytes or self._is_late(place, deletions):
                continue
            self._entries[place] = (embedding, until)
            self._bytes += size
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def delete(self, places: Iterable[Place]) -> int:
        """Forget what stands there, and refuse it from whoever has begun; return how many."""
        self._deletions += 1
        dropped = 0
        for place in places:
            self._deleted.pop(place, None)
            self._deleted[place] = self._deletions
            dropped += self._drop(place)
        while len(self._deleted) > _DELETED_AT_MOST:
            _, self._known_since = self._deleted.popitem(last=False)
        return dropped

    def drop(self, places: Iterable[Place]) -> None:
        """Forget what stands there; it may come again."""
        for place in places:
            self._drop(place)

    def _is_late(self, place: Place, deletions: Deletions) -> bool:
        return deletions < max(self._deleted.get(place, 0), self._known_since)

    def _drop(self, place: Place) -> bool:
        entry = self._entries.pop(place, None)
        if entry is None:
            return False
        self._bytes -= entry[0].vector.nbytes + _ENTRY_BYTES
        return True
