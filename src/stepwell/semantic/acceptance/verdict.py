"""What an acceptance policy says of one candidate."""

from dataclasses import dataclass
from typing import Protocol

from stepwell.core.names import CacheKey, Level
from stepwell.semantic.valve.reading import Reading

TOO_FAR = "similarity"
"""What refuses a candidate that is not near enough."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What was asked, and a stored question that lies near."""

    key: CacheKey
    """The entry of the stored question."""
    asked: Reading
    stored: Reading
    similarity: float
    """Cosine of their vectors, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The stored answer may be given."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The stored answer must not be given."""

    by: str
    """A closed set, for metrics and reports: `TOO_FAR`, a kind of difference, ``opinion``."""
    detail: str
    """In words, for the trail."""


Verdict = Accepted | Refused


def too_far(least: float) -> Refused:
    """Return the refusal of what is less similar than ``least``, which it must be."""
    return Refused(TOO_FAR, f"below {least:.3f}")


class Acceptance(Protocol):
    """Decides about one candidate. Pure; some 50 us."""

    def too_far(self, similarity: float, level: Level, min_similarity: float) -> Refused | None:
        """Return the refusal of what `judge` would refuse for its similarity, whatever the texts.

        ``None`` if they must be read. Costs a microsecond.
        """
        ...

    def judge(self, pair: Pair, level: Level, min_similarity: float) -> Verdict:
        """Return whether the answer may be given.

        Args:
            pair: The two questions.
            level: The level of the request's class, or a stricter one the caller asks for.
            min_similarity: The caller's own bound, in [0, 1]; it only tightens.
        """
        ...
