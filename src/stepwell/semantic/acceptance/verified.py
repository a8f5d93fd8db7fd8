"""The policy that learns from judged hits where each entry's boundary lies."""

from dataclasses import dataclass
from typing import Protocol

from stepwell.core.names import CacheKey, Level
from stepwell.semantic.acceptance.boundary import Boundary
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.acceptance.threshold import through_valve
from stepwell.semantic.acceptance.verdict import Pair, Refused, Verdict, too_far
from stepwell.semantic.valve.valve import CHECKS, Check


class Boundaries(Protocol):
    """What is known of single entries; `stepwell.semantic.evidence.Evidence`."""

    def boundary(self, key: CacheKey) -> Boundary | None:
        """Return where the entry's boundary lies, or ``None`` while too few hits were judged."""
        ...


@dataclass(frozen=True, slots=True)
class Verified:
    """Accepts by the level until an entry's hits have been judged, then by its own boundary too.

    The calibration's ``max_error`` bounds, for each level, the share of an entry's hits that are
    wrong:

    - Nearer than the level demands: accepted, unless the entry's judged hits make it likely that
      more than that share is wrong here.
    - Farther, but not farther than the loosest level allows: accepted only if they make it sure
      that at most that share is.

    The safety valve is asked in every case. Pure but for what ``boundaries`` knows.
    """

    calibration: Calibration
    boundaries: Boundaries
    checks: tuple[Check, ...] = CHECKS
    """What the safety valve asks."""

    def too_far(self, similarity: float, level: Level, min_similarity: float) -> Refused | None:
        """As `Acceptance.too_far`."""
        levels = self.calibration.min_similarity
        if similarity >= max(min_similarity, min(levels["faq"], levels[level])):
            return None
        return too_far(max(min_similarity, levels[level]))

    def judge(self, pair: Pair, level: Level, min_similarity: float) -> Verdict:
        """As `Acceptance.judge`."""
        refused = self.too_far(pair.similarity, level, min_similarity)
        if refused is not None:
            return refused
        demanded = self.calibration.min_similarity[level]
        boundary = self.boundaries.boundary(pair.key)
        enough = 1.0 - self.calibration.max_error[level]
        if pair.similarity < demanded:
            if boundary is None or boundary.surely_right(pair.similarity) < enough:
                return too_far(demanded)
        elif boundary is not None and boundary.likely_right(pair.similarity) < enough:
            return Refused("judged", f"judged hits: right from {boundary.middle:.3f} on")
        return through_valve(pair, self.checks)
