"""What the walk through the layers came to, as values that are matched exhaustively."""

from dataclasses import dataclass
from enum import StrEnum

from stepwell.core.entry import Entry
from stepwell.core.names import LayerName, Tier


@dataclass(frozen=True, slots=True)
class Hit:
    """A layer has an answer that may be served as it is."""

    entry: Entry
    layer: LayerName
    tier: Tier
    similarity: float | None = None
    """Of the question asked and the entry's, in [0, 1]; ``None`` where they are the same."""
    before: tuple[str, ...] = ()
    """What cheaper layers said."""


class StaleReason(StrEnum):
    """Why an entry that was found is not fresh."""

    EXPIRED = "expired"
    """Its time is over; the class may still allow it while revalidating or on an error."""
    SOURCE_MOVED = "source-moved"
    """A source it was made under has another value now. Never served."""
    TOO_OLD = "too-old"
    """Fresh or expired, but the caller asked for a fresher one (``max-age``, ``min-fresh``). Never
    served."""
    CLOCK = "clock"
    """It seems to come from the future: the clock jumped, its age cannot be told. Never served."""


@dataclass(frozen=True, slots=True)
class Stale:
    """A layer has an answer, but not a fresh one."""

    entry: Entry
    layer: LayerName
    tier: Tier
    reason: StaleReason


@dataclass(frozen=True, slots=True)
class Miss:
    """A layer was asked and has nothing to offer."""

    layer: LayerName
    detail: str = ""
    before: tuple[str, ...] = ()
    """What cheaper layers said."""
    withheld: Hit | None = None
    """What would have been served, but for the class's shadow mode."""


@dataclass(frozen=True, slots=True)
class Bypass:
    """No layer may be asked for this request."""

    reason: str


Outcome = Hit | Stale | Miss | Bypass
