"""What somebody said of an answer that was given to other words."""

from dataclasses import dataclass
from enum import StrEnum

from stepwell.core.names import CacheKey, PairId


class Verdict(StrEnum):
    """Whether the answer answered the question."""

    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the answer to one question is the answer to another. The latest of a pair counts."""

    pair: PairId
    """The two questions; which of them was stored does not matter."""
    key: CacheKey
    """The entry that was served, or would have been."""
    similarity: float
    """Of the two questions, as the layer saw it."""
    verdict: Verdict
    judged_at: float
    """Seconds since the Unix epoch."""
