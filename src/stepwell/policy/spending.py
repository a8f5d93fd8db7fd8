"""How much of something may be spent in a minute."""

from stepwell.policy.allowance import MINUTE_SECONDS


class Spending:
    """A purse that fills evenly, up to what a minute brings. Not thread-safe."""

    def __init__(self, per_minute: float) -> None:
        """Start full."""
        self._per_minute = per_minute
        self._left = per_minute
        self._at: float | None = None

    def take(self, amount: float, now: float) -> bool:
        """Return whether there is enough for ``amount``, and take it if so.

        Args:
            amount: More than a minute brings is never there.
            now: A clock's monotonic time.
        """
        elapsed = 0.0 if self._at is None else now - self._at
        self._at = now
        filled = self._left + elapsed * self._per_minute / MINUTE_SECONDS
        self._left = min(self._per_minute, filled)
        if amount > self._left:
            return False
        self._left -= amount
        return True
