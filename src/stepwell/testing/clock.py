"""A clock for tests."""


class HandClock:
    """A `Clock` that stands still until it is turned; both its times move together."""

    def __init__(self, seconds: float = 1_000.0) -> None:
        """Set both times to ``seconds``."""
        self.seconds = seconds

    def now(self) -> float:
        """Return the wall-clock time."""
        return self.seconds

    def monotonic(self) -> float:
        """Return the monotonic time."""
        return self.seconds
