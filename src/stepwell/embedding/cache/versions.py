"""What this process knows of the kinds of vectors that it is asked for."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from stepwell.core.embedding import VectorKind
from stepwell.core.embedding_events import EmbeddingDrifted, EmbeddingSink

_AT_MOST: Final = 1024


@dataclass(slots=True, eq=False)
class Version:
    """A kind, and what is known of it. For one event loop."""

    kind: VectorKind
    name: str
    """Its version, as it stands in keys."""
    fingerprint: bytes = field(repr=False)
    width: int | None
    """Of its vectors, as soon as one has been seen."""
    drifted: bool = False
    """The provider has changed its model: nothing is served or kept any more."""
    is_registered: bool = False
    """The full store has room for it."""
    refused_until: float = 0.0
    """The full store has none; asked again then. A clock's monotonic time."""
    canaries_due: float = 0.0
    """When the provider is to be looked at again. A clock's monotonic time."""

    def fits(self, width: int) -> bool:
        """Return whether a vector may be of ``width``; the first decides."""
        if self.width is None:
            self.width = width
        return self.width == width

    def drift(self, distance: float, events: EmbeddingSink) -> None:
        """Note that the provider has changed its model; tell it once.

        Args:
            distance: Of a vector from what it was, as a part of its length; infinite where they
                have different widths.
            events: Hears of it.
        """
        if not self.drifted:
            self.drifted = True
            events.emit(EmbeddingDrifted(self.kind.model, self.name, distance))


class Versions:
    """The versions used last. Their number is bounded, since kinds come from requests."""

    def __init__(self) -> None:
        """Know none."""
        self._known: OrderedDict[bytes, Version] = OrderedDict()

    def of(self, kind: VectorKind) -> Version:
        """Return the version of ``kind``."""
        version = self._known.get(kind.fingerprint)
        if version is not None:
            self._known.move_to_end(kind.fingerprint)
            return version
        version = Version(kind, kind.version, kind.fingerprint, kind.dimensions)
        self._known[kind.fingerprint] = version
        if len(self._known) > _AT_MOST:
            self._forget_one()
        return version

    def drifted(self) -> tuple[str, ...]:
        """Return the names of those whose provider has changed."""
        return tuple(version.name for version in self._known.values() if version.drifted)

    def _forget_one(self) -> None:
        """Forget the one used least lately, but none that has drifted while there are others."""
        oldest = next((f for f, known in self._known.items() if not known.drifted), None)
        self._known.pop(next(iter(self._known)) if oldest is None else oldest)
