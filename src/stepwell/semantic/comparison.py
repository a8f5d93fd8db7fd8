"""A closer look at the best candidate: token by token, by the embedder's own states."""

from stepwell.core.clock import Clock
from stepwell.core.errors import EmbeddingError
from stepwell.core.events import Degraded
from stepwell.core.likeness import Match
from stepwell.core.names import Level
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Comparer
from stepwell.semantic.acceptance.calibration import Compared
from stepwell.semantic.acceptance.verdict import Refused

COMPARISON = "comparison"
"""What refuses a match that does not look the same from nearby."""

LEAST_SHARE = 0.25
"""Of the lookup's time that is kept for the comparison. A text that can be compared is short, so
what came before took that long only if the loop was busy, and not the embedder."""


class Comparison:
    """Compares the texts of a match, in what is left of the lookup's time.

    Safe for many tasks on one event loop.
    """

    def __init__(
        self,
        comparer: Comparer,
        levels: Compared,
        *,
        budget_seconds: float | None,
        clock: Clock,
        events: EventSink,
    ) -> None:
        """Put the parts together.

        Args:
            comparer: Compares.
            levels: What each level asks for.
            budget_seconds: Longest a lookup may take, what came before included; ``None``: as
                long as it takes.
            clock: The time.
            events: Hears of failures.
        """
        self._comparer = comparer
        self._levels = levels
        self._budget_seconds = budget_seconds
        self._clock = clock
        self._events = events

    async def doubt(self, asked: str, match: Match, level: Level, started: float) -> Refused | None:
        """Return why the match may not be given; ``None`` if it may. Never raises.

        Costs one run of the embedder, none for one of the last pairs.

        Args:
            asked: The question.
            match: What all else accepts.
            level: How alike they must be.
            started: When the lookup began, by the clock's monotonic time.
        """
        if asked == match.text:
            return None
        try:
            left = self._left(started)
            score = await self._comparer.score(asked, match.text, within_seconds=left)
        except EmbeddingError as error:
            self._events.emit(Degraded("semantic.comparison", str(error)))
            return Refused(COMPARISON, "not compared: the embedder failed, or was late")
        if score is None:
            least = self._levels.min_similarity[level]
            if match.similarity >= least:
                return None
            return Refused(COMPARISON, f"cannot be compared, and below {least:.3f}")
        least = self._levels.min_score[level]
        return None if score >= least else Refused(COMPARISON, f"score {score:.2f} below {least}")

    def _left(self, started: float) -> float | None:
        if self._budget_seconds is None:
            return None
        left = self._budget_seconds - (self._clock.monotonic() - started)
        return max(self._budget_seconds * LEAST_SHARE, left)
