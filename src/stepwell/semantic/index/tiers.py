"""Which segments are merged next. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """What the choice depends on."""

    name: str
    rows: int
    live: int


def choose(sizes: Sequence[Size], *, first_rows: int, fan: int, dead_share: float) -> list[str]:
    """Return the segments to merge into one, or none.

    Segments of up to ``first_rows`` live rows are tier 0; each further tier is ``fan`` times as
    large. When a tier has ``fan`` segments, they become one, and with them all smaller ones, whose
    rows cost little beside. So a row is written once a tier: log of all rows, to base ``fan``.
    A segment with more than ``dead_share`` dead rows is rewritten with the smaller ones, too.

    Args:
        sizes: Of all segments.
        first_rows: At least 1.
        fan: At least 2.
        dead_share: 0 to 1.
    """
    tiers = {size.name: _tier(size.live, first_rows, fan) for size in sizes}
    counts = [
        list(tiers.values()).count(tier) for tier in range(max(tiers.values(), default=0) + 1)
    ]
    due = [tier for tier, count in enumerate(counts) if count >= fan]
    due += [tiers[s.name] for s in sizes if s.rows - s.live > dead_share * s.rows]
    if not due:
        return []
    return [size.name for size in sizes if tiers[size.name] <= max(due)]


def _tier(live: int, first_rows: int, fan: int) -> int:
    tier = 0
    while live > first_rows * fan**tier:
        tier += 1
    return tier
