"""A set that forgets what it did not meet for long."""


class Recent:
    """Remembers hashes, the last ``capacity`` of them at least and twice as many at most."""

    def __init__(self, capacity: int) -> None:
        """Remember nothing."""
        self._capacity = capacity
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._young | self._old)

    def meet(self, value: int) -> bool:
        """Return whether ``value`` was met before, and remember it."""
        if value in self._young:
            return True
        was_met = value in self._old
        self._young.add(value)
        if len(self._young) >= self._capacity:
            # What was not met since the last turn goes.
            self._young, self._old = set(), self._young
        return was_met
