"""Whether the full store has room for a version."""

from typing import Final

from stepwell.core.clock import Clock
from stepwell.core.embedding import FullStore
from stepwell.core.errors import StoreFull, VersionTaken
from stepwell.embedding.cache.versions import Version

_ASK_AGAIN_SECONDS: Final = 60.0
"""An operator may have retired one meanwhile."""


class Registration:
    """Registers each version once. For one event loop."""

    def __init__(self, full: FullStore | None, *, max_versions: int, clock: Clock) -> None:
        """Register with ``full``; without one there is always room."""
        self._full = full
        self._max_versions = max_versions
        self._clock = clock

    async def has_room(self, version: Version) -> bool:
        """Return whether vectors of ``version`` may be kept.

        Raises:
            StoreError: The store does not say.
        """
        if self._full is None or version.is_registered:
            return True
        if self._clock.monotonic() < version.refused_until:
            return False
        try:
            await self._full.register(version.kind, at_most=self._max_versions)
        except (StoreFull, VersionTaken):
            version.refused_until = self._clock.monotonic() + _ASK_AGAIN_SECONDS
            return False
        version.is_registered = True
        return True
