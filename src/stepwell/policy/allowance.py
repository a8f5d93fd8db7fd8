"""How many of something may begin in a minute."""

from collections import deque

MINUTE_SECONDS = 60.0


class Allowance:
    """Counts what began in the last minute. Not thread-safe."""

    def __init__(self, per_minute: int) -> None:
        """Let so many begin in any 60 seconds."""
        self._per_minute = per_minute
        self._begun: deque[float] = deque()

    def take(self, now: float) -> bool:
        """Return whether one more may begin, and count it if so.

        Args:
            now: A clock's monotonic time.
        """
        while self._begun and self._begun[0] <= now - MINUTE_SECONDS:
            self._begun.popleft()
        if len(self._begun) >= self._per_minute:
            return False
        self._begun.append(now)
        return True
