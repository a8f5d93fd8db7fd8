"""How large an index may grow, and when it tidies up."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one worker's view. All are obeyed without the caller's help but ``max_points``,
    which holds again after each `VectorIndex.maintain`.
    """

    max_points: int = 1_000_000
    """More than these leave, the next to expire first."""
    delta_points: int = 8_192
    """Points in memory that make a flush due. At twice as many the next to expire leave."""
    delta_bytes: int = 64 << 20
    """The same for bytes, of vectors and texts."""
    ivf_rows: int = 16_384
    """Rows of a partition in a segment from which on it gets an inverted file."""
    nprobe: int = 8
    """Lists of an inverted file that a search reads. More find more, and take longer."""
    dead_share: float = 0.25
    """Share of dead rows from which on a segment is rewritten."""
    fan: int = 4
    """So many segments of one size become one of the next."""
