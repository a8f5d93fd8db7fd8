"""The values met most often in a stream, in bounded memory."""

from collections import Counter

CAPACITY = 50_000


class Popular:
    """Counts values; when there are too many, those met least often are forgotten.

    A count is never too high (Misra & Gries 1982; it is too low by no more than what was
    forgotten).
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        """Count nothing yet."""
        self._capacity = capacity
        self._counts: Counter[str] = Counter()

    def meet(self, value: str) -> None:
        """Count ``value`` once more."""
        self._counts[value] += 1
        if len(self._counts) > 2 * self._capacity:
            least = self._counts.most_common(self._capacity + 1)[-1][1]
            kept = {value: count - least for value, count in self._counts.items() if count > least}
            self._counts = Counter(kept)

    def most(self, count: int) -> list[tuple[str, int]]:
        """Return the values met most often, and how often at least; those met once left out."""
        return [(value, n) for value, n in self._counts.most_common(count) if n > 1]
