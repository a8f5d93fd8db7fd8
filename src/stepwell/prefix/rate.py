"""How fast a shelf is, as measured, and whether loading from it beats computing."""

from typing import Final

_WEIGHT: Final = 0.2
"""Of the newest measurement in the moving average."""

RETRY_SECONDS: Final = 30.0
"""A shelf that was too slow is tried again after this long: a busy minute must not shut it."""


class Rate:
    """A moving average of seconds per byte. Changed under the cache's lock."""

    __slots__ = ("_measured_at", "seconds_per_byte")

    def __init__(self) -> None:
        self.seconds_per_byte = 0.0
        """0: not measured yet."""
        self._measured_at = 0.0

    def note(self, seconds: float, num_bytes: int, now: float) -> None:
        """Note how long reading some bytes took."""
        if num_bytes > 0:
            measured, old = seconds / num_bytes, self.seconds_per_byte
            self.seconds_per_byte = old + _WEIGHT * (measured - old) if old else measured
            self._measured_at = now

    def beats(self, seconds: float, num_bytes: int, now: float) -> bool:
        """Return whether reading some bytes takes less time than ``seconds``, as far as is known.

        ``True`` while either is unknown (0).
        """
        if not seconds or self.seconds_per_byte * num_bytes < seconds:
            return True
        return now - self._measured_at >= RETRY_SECONDS
