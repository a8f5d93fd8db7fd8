"""What a cache counts, as values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stepwell.core.names import Namespace
from stepwell.prefix.shelves import Level

EvictionReason = Literal["capacity", "quota", "lost"]
"""Room was needed; a tenant's room was needed; it, or one before it, was damaged or gone."""

RefusalReason = Literal["short", "first_sight", "no_room", "queue", "unwritten"]
"""Why blocks were not kept: too few tokens; not seen before, and the shelf is full; everything is
in use; too many wait for the disk; the disk did not take it."""


@dataclass(frozen=True, slots=True)
class ShelfFigures:
    """One shelf, now and since the start."""

    level: Level
    bytes: int
    max_bytes: int
    blocks: int
    tenant_bytes: Mapping[Namespace | None, int]
    hit_tokens: int
    """Tokens that were loaded from it."""
    seconds_per_byte: float
    """What loading takes lately; 0: not measured yet."""
    evicted_blocks: Mapping[EvictionReason, int]
    """Those that went to another shelf count, too."""


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """A cache, now and since the start."""

    shelves: tuple[ShelfFigures, ...]
    scopes: int
    blocks: int
    """Kept anywhere, each counted once."""
    leases: int
    pins: int
    pinned_bytes: int
    asked_tokens: int
    """Tokens for which a prefix was looked up."""
    matched_tokens: int
    added_blocks: int
    refused_blocks: Mapping[RefusalReason, int]
    lost_blocks: int
    """Damaged or gone when they were to be loaded."""
    expired_leases: int
    saved_seconds: float
    """What computing the loaded tokens took when they were computed, less the time of loading."""


@dataclass(slots=True)
class Counts:
    """What only grows. Changed under the cache's lock."""

    asked_tokens: int = 0
    matched_tokens: int = 0
    added_blocks: int = 0
    lost_blocks: int = 0
    expired_leases: int = 0
    saved_seconds: float = 0.0
    refused: Counter[RefusalReason] = field(default_factory=Counter)
