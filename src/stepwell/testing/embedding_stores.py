"""A full store of vectors in memory, for tests: as slow as a dict, and lost with the process."""

import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stepwell.core.clock import Clock
from stepwell.core.embedding import (
    ContentDigest,
    Deletions,
    Found,
    Item,
    KnownText,
    VectorKind,
    VersionFigures,
)
from stepwell.core.errors import StoreFull, VersionTaken

_DAY_SECONDS = 86_400


@dataclass(slots=True, eq=False)
class _Version:
    kind: VectorKind
    created_at: float
    since: Deletions
    """Deletions there were when it began."""
    items: dict[ContentDigest, Item] = field(default_factory=dict)
    used_at: dict[ContentDigest, float] = field(default_factory=dict)
    deleted: dict[ContentDigest, Deletions] = field(default_factory=dict)
    canaries: dict[str, bytes] = field(default_factory=dict)


class MemoryEmbeddings:
    """As `stepwell.core.embedding.FullStore`, and as its `Claims` for one process."""

    def __init__(self, clock: Clock, *, tier: str = "disk") -> None:
        """Hold nothing.

        Args:
            clock: The time.
            tier: What it says it is.
        """
        self.tier = tier
        self._clock = clock
        self._versions: dict[str, _Version] = {}
        self._deletions = Deletions(0)
        self._claimed: defaultdict[str, dict[ContentDigest, float]] = defaultdict(dict)

    async def register(self, kind: VectorKind, *, at_most: int) -> None:
        """As `FullStore.register`."""
        known = self._versions.get(kind.version)
        if known is not None:
            if known.kind.fingerprint != kind.fingerprint:
                raise VersionTaken(f"{kind.version} is another kind's")
            return
        if len(self._versions) >= at_most:
            raise StoreFull(f"there are {at_most} versions")
        self._versions[kind.version] = _Version(kind, self._clock.now(), self._deletions)

    async def get(self, version: str, digests: Sequence[ContentDigest]) -> Found:
        """As `EmbeddingStore.get`."""
        known = self._versions.get(version)
        items = {} if known is None else known.items
        values = {digest: items[digest].value for digest in digests if digest in items}
        self.touch(version, tuple(values))
        return Found(values, self._deletions)

    async def put(
        self, version: str, items: Sequence[Item], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """As `EmbeddingStore.put`."""
        known = self._versions.get(version)
        if known is None or deletions < known.since:
            return frozenset(item.digest for item in items)
        late = {item.digest for item in items if known.deleted.get(item.digest, 0) > deletions}
        for item in items:
            if item.digest not in late:
                known.items.setdefault(item.digest, item)
                known.used_at.setdefault(item.digest, self._today())
        return late

    async def delete(self, version: str, digests: Sequence[ContentDigest]) -> int:
        """As `EmbeddingStore.delete`."""
        self._deletions = Deletions(self._deletions + 1)
        known = self._versions.get(version)
        if known is None:
            return 0
        known.deleted.update(dict.fromkeys(digests, self._deletions))
        return sum(known.items.pop(digest, None) is not None for digest in set(digests))

    async def retire(self, version: str) -> None:
        """As `EmbeddingStore.retire`."""
        self._deletions = Deletions(self._deletions + 1)
        self._versions.pop(version, None)

    def touch(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `FullStore.touch`; at once."""
        known = self._versions.get(version)
        if known is not None:
            today = self._today()
            known.used_at.update((digest, today) for digest in digests if digest in known.items)

    async def versions(self) -> Sequence[VersionFigures]:
        """As `FullStore.versions`."""
        return [_figures(known) for known in reversed(self._versions.values())]

    async def canaries(self, version: str) -> Mapping[str, bytes]:
        """As `FullStore.canaries`."""
        known = self._versions.get(version)
        return {} if known is None else dict(known.canaries)

    async def keep_canaries(self, version: str, values: Mapping[str, bytes]) -> None:
        """As `FullStore.keep_canaries`."""
        known = self._versions.get(version)
        if known is not None and not known.canaries:
            known.canaries.update(values)

    async def unfilled(self, old: str, new: str, at_most: int) -> Sequence[KnownText]:
        """As `FullStore.unfilled`."""
        source, filled = self._versions.get(old), self._versions.get(new)
        if source is None:
            return []
        there = {} if filled is None else filled.items
        texts = [
            KnownText(digest, item.text, source.used_at[digest])
            for digest, item in source.items.items()
            if item.text is not None and digest not in there
        ]
        return sorted(texts, key=lambda known: -known.used_at)[:at_most]

    async def covered(self, old: str, new: str) -> int:
        """As `FullStore.covered`."""
        known = self._versions.get(old)
        texts = 0 if known is None else _figures(known).with_text
        return texts - len(await self.unfilled(old, new, texts))

    async def sample(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """As `FullStore.sample`."""
        known = self._versions.get(version)
        digests = [] if known is None else list(known.items)
        return random.sample(digests, min(at_most, len(digests)))

    async def deleted(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """As `FullStore.deleted`."""
        known = self._versions.get(version)
        deleted = {} if known is None else known.deleted
        return sorted(deleted, key=lambda digest: -deleted[digest])[:at_most]

    async def claim(
        self, version: str, digests: Sequence[ContentDigest], milliseconds: int
    ) -> Collection[ContentDigest]:
        """As `Claims.claim`; whoever asks is taken for the same process."""
        ends_at = self._clock.now() + milliseconds / 1000
        self._claimed[version].update(dict.fromkeys(digests, ends_at))
        return digests

    async def release(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `Claims.release`."""
        for digest in digests:
            self._claimed[version].pop(digest, None)

    async def aclose(self) -> None:
        """As `EmbeddingStore.aclose`. What is held stays."""

    def _today(self) -> float:
        return self._clock.now() // _DAY_SECONDS * _DAY_SECONDS


def _figures(known: _Version) -> VersionFigures:
    items = known.items.values()
    return VersionFigures(
        kind=known.kind,
        vectors=len(items),
        bytes=sum(len(item.value) for item in items),
        with_text=sum(item.text is not None for item in items),
        created_at=known.created_at,
        used_at=max(known.used_at.values(), default=known.created_at),
    )
