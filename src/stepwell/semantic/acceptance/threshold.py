"""The plain policy: near enough for the level, and nothing speaks against it."""

from stepwell.core.names import Level
from stepwell.semantic.acceptance.calibration import Calibration
from stepwell.semantic.acceptance.verdict import Accepted, Pair, Refused, Verdict, too_far
from stepwell.semantic.valve.valve import CHECKS, Check, difference


class Threshold:
    """Accepts what is as similar as the level demands and passes the safety valve. Pure."""

    def __init__(self, calibration: Calibration, checks: tuple[Check, ...] = CHECKS) -> None:
        """Take the meaning of the levels, and what the safety valve asks."""
        self._calibration = calibration
        self._checks = checks

    def too_far(self, similarity: float, level: Level, min_similarity: float) -> Refused | None:
        """As `Acceptance.too_far`."""
        least = max(self._calibration.min_similarity[level], min_similarity)
        return too_far(least) if similarity < least else None

    def judge(self, pair: Pair, level: Level, min_similarity: float) -> Verdict:
        """As `Acceptance.judge`."""
        refused = self.too_far(pair.similarity, level, min_similarity)
        return through_valve(pair, self._checks) if refused is None else refused


def through_valve(pair: Pair, checks: tuple[Check, ...]) -> Verdict:
    """Return what the safety valve says."""
    found = difference(pair.asked, pair.stored, checks)
    return Accepted() if found is None else Refused(found.kind, str(found))
