"""What somebody said of an answer that was given to other words."""

from dataclasses import dataclass
from enum import StrEnum

from stepwell.core.errors import RequestError
from stepwell.core.names import CacheKey, PairId

_SHOWN_CHARACTERS = 40


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


def read_verdict(text: object) -> Verdict:
    """Return the verdict that somebody gave.

    Raises:
        RequestError: It is none.
    """
    for verdict in Verdict:
        if verdict == text:
            return verdict
    expected = " or ".join(repr(verdict.value) for verdict in Verdict)
    shown = repr(text[:_SHOWN_CHARACTERS]) if isinstance(text, str) else type(text).__name__
    raise RequestError(f"'verdict' is {shown}: expected {expected}.", param="verdict")
