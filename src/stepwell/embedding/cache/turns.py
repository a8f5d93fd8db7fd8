"""Who computes what, among the processes that share a store."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stepwell.core.clock import Clock
from stepwell.core.embedding import Claims, ContentDigest
from stepwell.core.embedding_events import EmbeddingSink
from stepwell.core.errors import StoreError
from stepwell.core.events import Degraded
from stepwell.embedding.cache.job import Given
from stepwell.embedding.cache.pace import Pause
from stepwell.embedding.cache.tiers import Tiers
from stepwell.embedding.cache.versions import Version

CLAIM_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 10.0
"""How long a process waits for another's result; then it computes itself."""

_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Turn:
    """What became of some digests."""

    found: Mapping[ContentDigest, Given]
    """Another has computed them."""
    ours: Sequence[ContentDigest]
    """To be computed here."""
    claimed: bool
    """``ours`` are claimed, to be given up in the end; else it took too long."""


class Turns:
    """Claims what is to be computed, and waits for what others have claimed."""

    def __init__(
        self,
        claims: Claims,
        tiers: Tiers,
        events: EmbeddingSink,
        *,
        clock: Clock,
        pause: Pause = asyncio.sleep,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Claim by ``claims``; find what others have computed in ``tiers``."""
        self._claims = claims
        self._tiers = tiers
        self._events = events
        self._clock = clock
        self._pause = pause
        self._patience_seconds = patience_seconds

    async def take(self, version: Version, digests: Sequence[ContentDigest]) -> AsyncIterator[Turn]:
        """Yield what becomes of ``digests``, each once, as it is known."""
        until = self._clock.monotonic() + self._patience_seconds
        pause_seconds = _FIRST_PAUSE_SECONDS
        waiting = list(digests)
        while waiting:
            granted = await self._claim(version, waiting)
            if granted is None or self._clock.monotonic() >= until:
                yield Turn({}, waiting, claimed=False)
                return
            if granted:
                yield await self._turn(version, waiting, granted)
                waiting = [digest for digest in waiting if digest not in granted]
            if waiting:
                await self._pause(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
                looked = await self._tiers.look(version, waiting)
                if looked.found:
                    yield Turn(looked.found, (), claimed=False)
                    waiting = [digest for digest in waiting if digest not in looked.found]

    async def _turn(
        self,
        version: Version,
        waiting: Sequence[ContentDigest],
        granted: Collection[ContentDigest],
    ) -> Turn:
        """Look again: another may have stored something between our look and our claim."""
        ours = [digest for digest in waiting if digest in granted]
        looked = await self._tiers.look(version, ours)
        if looked.found:
            await self.release(version, list(looked.found))
        still = [digest for digest in ours if digest not in looked.found]
        return Turn(looked.found, still, claimed=True)

    async def release(self, version: Version, digests: Sequence[ContentDigest]) -> None:
        """Give up what was claimed; whoever waits for it may compute it."""
        try:
            await self._claims.release(version.name, digests)
        except StoreError as error:
            self._events.emit(Degraded("embeddings.claims", str(error)))

    async def _claim(
        self, version: Version, digests: Sequence[ContentDigest]
    ) -> frozenset[ContentDigest] | None:
        """Return what was claimed; ``None``: it cannot be told who computes what."""
        milliseconds = int(1000 * CLAIM_SECONDS)
        try:
            return frozenset(await self._claims.claim(version.name, digests, milliseconds))
        except StoreError as error:
            self._events.emit(Degraded("embeddings.claims", str(error)))
            return None
