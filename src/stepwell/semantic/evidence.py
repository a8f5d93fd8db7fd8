"""Judged hits by entry, and the boundaries that follow from them."""

from collections.abc import Iterable

from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import CacheKey, PairId
from stepwell.semantic.acceptance.boundary import Boundary, Observation, Prior, fit

MIN_OBSERVATIONS = 4
"""So many judged hits an entry needs before they count."""

MAX_OBSERVATIONS = 64
"""Kept of one entry, the latest: more would not move its boundary."""


class Evidence:
    """What the judgements of a store say about each entry. One event loop; not thread-safe.

    A boundary is fitted when it is asked for and kept until the entry is judged again.
    """

    def __init__(self, prior: Prior) -> None:
        self._prior = prior
        self._judged: dict[CacheKey, dict[PairId, Observation]] = {}
        self._boundaries: dict[CacheKey, Boundary] = {}

    def load(self, judgements: Iterable[Judgement]) -> None:
        """Forget all, and take these, oldest first."""
        self._judged.clear()
        self._boundaries.clear()
        for judgement in judgements:
            self.note(judgement)

    def note(self, judgement: Judgement) -> None:
        """Take one more judgement, in place of an older one of its pair."""
        judged = self._judged.setdefault(judgement.key, {})
        judged.pop(judgement.pair, None)
        if len(judged) >= MAX_OBSERVATIONS:
            del judged[next(iter(judged))]
        right = judgement.verdict is Verdict.RIGHT
        judged[judgement.pair] = Observation(judgement.similarity, right)
        self._boundaries.pop(judgement.key, None)

    def boundary(self, key: CacheKey) -> Boundary | None:
        """As `Boundaries.boundary`. Costs a look-up, or a fit of some 100 us."""
        known = self._boundaries.get(key)
        if known is not None:
            return known
        judged = self._judged.get(key)
        if judged is None or len(judged) < MIN_OBSERVATIONS:
            return None
        fitted = self._boundaries[key] = fit(list(judged.values()), self._prior)
        return fitted
