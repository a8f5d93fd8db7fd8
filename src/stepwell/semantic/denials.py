"""What people have said of hits: pairs that are denied, entries that are narrowed."""

from collections.abc import Iterable

from stepwell.core.judgement import Judgement, Verdict
from stepwell.core.names import CacheKey, PairId, Partition
from stepwell.keys.pair import pair_of


class Denials:
    """The judgements of a store, as a lookup needs them. One event loop; not thread-safe.

    A wrong hit denies its pair, in both directions, and narrows the entry: it answers only
    questions that are nearer than the one it failed. The latest judgement of a pair counts.
    """

    def __init__(self) -> None:
        self._wrong: dict[PairId, tuple[CacheKey, float]] = {}
        self._floors: dict[CacheKey, float] = {}

    def __len__(self) -> int:
        """Return how many pairs are denied."""
        return len(self._wrong)

    def load(self, judgements: Iterable[Judgement]) -> None:
        """Forget all, and take these, oldest first."""
        self._wrong.clear()
        self._floors.clear()
        for judgement in judgements:
            self.note(judgement)

    def note(self, judgement: Judgement) -> None:
        """Take one more judgement."""
        if judgement.verdict is Verdict.WRONG:
            self._wrong[judgement.pair] = (judgement.key, judgement.similarity)
            floor = max(judgement.similarity, self._floors.get(judgement.key, 0.0))
            self._floors[judgement.key] = floor
        elif (denied := self._wrong.pop(judgement.pair, None)) is not None:
            self._lower(denied[0])

    def denies(self, pair: PairId) -> bool:
        """Return whether a pair was said to be wrong, and nobody has taken that back."""
        return pair in self._wrong

    def forbids(self, partition: Partition, one: str, other: str) -> bool:
        """Return whether the answer to either must not be given to the other."""
        return bool(self._wrong) and self.denies(pair_of(partition, one, other))

    def floor(self, key: CacheKey) -> float:
        """Return the similarity that a question must exceed to be answered by an entry."""
        return self._floors.get(key, 0.0)

    def _lower(self, key: CacheKey) -> None:
        left = [similarity for denied, similarity in self._wrong.values() if denied == key]
        self._floors[key] = max(left, default=0.0)
        if not left:
            del self._floors[key]
