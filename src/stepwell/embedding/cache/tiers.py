"""The stores behind memory, from fast to full, as one."""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stepwell.core.embedding import (
    Claims,
    ContentDigest,
    Deletions,
    EmbeddingStore,
    FullStore,
    Item,
)
from stepwell.core.embedding_events import EmbeddingInvalid, EmbeddingSink, Source
from stepwell.core.errors import StoreError
from stepwell.core.events import Degraded
from stepwell.embedding.cache.job import Given
from stepwell.embedding.cache.value import unpack
from stepwell.embedding.cache.versions import Version

SLICE: Final = 256
"""Digests that a store is asked for at a time."""

_REFILLS: Final = 8
"""Under way at a time. What is not put into a faster store is put there at its next hit."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Where vectors stand outside of this process."""

    caches: Sequence[EmbeddingStore] = ()
    """Fast ones, that hold a part; fastest first."""
    full: FullStore | None = None
    """The one that holds all."""
    claims: Claims | None = None
    """Of who computes what, if several processes share them."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What the stores had of some digests."""

    found: Mapping[ContentDigest, Given]
    deletions: Deletions
    """That the full store had seen before it looked."""


class Tiers:
    """Reads stores, and fills faster ones from slower ones. For one event loop.

    A store that fails is skipped, which costs what it takes to fail: its own circuit breaker sees
    to that.
    """

    def __init__(self, stores: Stores, events: EmbeddingSink) -> None:
        """Read ``stores``, each of another tier."""
        self._caches: tuple[EmbeddingStore, ...] = tuple(stores.caches)
        self._full = stores.full
        self._stores = self._caches if stores.full is None else (*self._caches, stores.full)
        self._sources = {store.tier: Source(store.tier) for store in self._stores}
        self._faster = {
            store.tier: self._caches[:place] for place, store in enumerate(self._stores)
        }
        self._events = events
        self._deletions = Deletions(0)
        """Of the full store, when it was last asked."""
        self._refills: set[asyncio.Task[None]] = set()

    @property
    def deletions(self) -> Deletions:
        """Those the full store had seen when it was last asked."""
        return self._deletions

    async def learn(self, version: Version) -> Deletions:
        """Return the deletions that the full store has seen, for whoever begins without a look."""
        if self._full is not None:
            try:
                self._deletions = (await self._full.get(version.name, ())).deletions
            except StoreError as error:
                self._degraded(self._full, error)
        return self._deletions

    async def look(self, version: Version, digests: Sequence[ContentDigest]) -> Looked:
        """Return what the stores have of distinct ``digests``.

        What a slower one has is put into the faster ones, in the background.
        """
        found: dict[ContentDigest, Given] = {}
        # Learned when the full store was last asked, before now: good enough if it is not asked,
        # or fails, since more is refused by an older number, never less.
        deletions = self._deletions
        for store in self._stores:
            missing = [digest for digest in digests if digest not in found]
            for start in range(0, len(missing), SLICE):
                values, seen = await self._ask(store, version, missing[start : start + SLICE])
                sound = await self._read(store, version, values)
                found.update(sound)
                if store is self._full and seen is not None:
                    deletions = seen if start == 0 else min(deletions, seen)
                    self._deletions = seen
                if sound:
                    self._pass_on(store, version, sound, values, deletions)
        return Looked(found, deletions)

    async def aclose(self) -> None:
        """Let what is being filled come to its end, but break off after a second."""
        if self._refills:
            _, late = await asyncio.wait(self._refills, timeout=1.0)
            for refill in late:
                refill.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def fill(
        self,
        version: Version,
        caches: Sequence[EmbeddingStore],
        items: Sequence[Item],
        deletions: Deletions,
    ) -> None:
        """Put ``items``, which the full store has, into ``caches``."""
        for cache in caches:
            try:
                await cache.put(version.name, items, deletions)
            except StoreError as error:
                self._degraded(cache, error)

    async def _ask(
        self, store: EmbeddingStore, version: Version, digests: Sequence[ContentDigest]
    ) -> tuple[Mapping[ContentDigest, bytes], Deletions | None]:
        """Return what ``store`` has, and the deletions it has seen, if it says."""
        try:
            return await store.get(version.name, digests)
        except StoreError as error:
            self._degraded(store, error)
            return {}, None

    async def _read(
        self, store: EmbeddingStore, version: Version, values: Mapping[ContentDigest, bytes]
    ) -> dict[ContentDigest, Given]:
        """Return what is sound of what ``store`` had; remove the rest from it."""
        source = self._sources[store.tier]
        sound: dict[ContentDigest, Given] = {}
        damaged: list[ContentDigest] = []
        for digest, value in values.items():
            embedding = unpack(value, version.kind)
            if embedding is None:
                damaged.append(digest)
            elif version.fits(embedding.vector.size):
                sound[digest] = Given(embedding, source)
            else:
                # Nothing is wrong with it: the provider made others before, or makes others now.
                version.drift(math.inf, self._events)
        if damaged:
            await self._remove(store, version, damaged)
        return sound

    async def _remove(
        self, store: EmbeddingStore, version: Version, damaged: Sequence[ContentDigest]
    ) -> None:
        """Remove what is no vector of that kind: stores keep what they have, so it would stay."""
        for _ in damaged:
            self._events.emit(EmbeddingInvalid(store.tier))
        try:
            await store.delete(version.name, damaged)
        except StoreError as error:
            self._degraded(store, error)

    def _pass_on(
        self,
        store: EmbeddingStore,
        version: Version,
        found: Collection[ContentDigest],
        values: Mapping[ContentDigest, bytes],
        deletions: Deletions,
    ) -> None:
        """Tell the full store what is used, and fill the caches that are faster than ``store``."""
        caches = self._faster[store.tier]
        if store is not self._full and self._full is not None:
            self._full.touch(version.name, list(found))
        if not caches or len(self._refills) >= _REFILLS:
            return
        items = [Item(digest, values[digest]) for digest in found]
        refill = asyncio.create_task(self.fill(version, caches, items, deletions))
        self._refills.add(refill)
        refill.add_done_callback(self._refills.discard)

    def _degraded(self, store: EmbeddingStore, error: StoreError) -> None:
        self._events.emit(Degraded(f"embeddings.{store.tier}", str(error)))
