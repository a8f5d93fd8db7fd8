"""Questions in other words: on which terms they are looked for, and what was found."""

from dataclasses import dataclass

from stepwell.core.judging import Respondent
from stepwell.core.names import CacheKey, Level


@dataclass(frozen=True, slots=True)
class Terms:
    """How alike two questions must be."""

    level: Level
    min_similarity: float = 0.0
    """The caller's own bound, in [0, 1]; it only tightens."""
    respondent: Respondent | None = None
    """A model that may be asked for a second opinion."""


@dataclass(frozen=True, slots=True)
class Match:
    """A stored question whose answer may be given."""

    key: CacheKey
    text: str
    similarity: float
    """Cosine, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class NoMatch:
    """No stored question's answer may be given."""

    outcome: str
    """Why, of a closed set, for metrics: ``nothing-near``, ``embedder``, ``index``, an `Unfit`,
    ``denied``, ``temperature``, ``comparison``, ``opinion``, ``opinion-over-budget``, or what the
    acceptance policy refuses by."""
    detail: str = ""
    """The same in a few words, for the trail."""
    near: CacheKey | None = None
    """A question so near that its KV blocks may begin like this one's."""
    similarity: float = 0.0
    """Of the nearest; 0 if there is none."""
