"""How far a long run has come, for people, on standard error."""

import time
from collections.abc import Callable
from typing import TextIO

_SECONDS_ON_TERMINAL = 0.2
_SECONDS_ELSEWHERE = 10.0
_BAR = 24
_MINUTE = 60
_HOUR = 3600


class Progress:
    """Shows a bar on a terminal, and a line now and then elsewhere. Nothing for short runs."""

    def __init__(
        self, what: str, stream: TextIO, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Show nothing yet.

        Args:
            what: What is counted, such as ``pairs``.
            stream: Where to.
            monotonic: A clock, in seconds.
        """
        self._what = what
        self._stream = stream
        self._monotonic = monotonic
        self._is_terminal = stream.isatty()
        self._every = _SECONDS_ON_TERMINAL if self._is_terminal else _SECONDS_ELSEWHERE
        self._started = self._shown = monotonic()
        self._width = 0

    def update(self, done: int, share: float | None) -> None:
        """Say how many are done, and what share of all that is, from 0 to 1, if that is known."""
        now = self._monotonic()
        if now - self._shown < self._every:
            return
        self._shown = now
        text = self._line(done, share, now - self._started)
        if self._is_terminal:
            # What the last line had more of must be wiped out.
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Clear the bar away."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def _line(self, done: int, share: float | None, seconds: float) -> str:
        rate = done / seconds if seconds else 0.0
        text = f"{done:,} {self._what}, {rate:,.0f}/s"
        if share is None:
            return text
        if share:
            text += f", {duration(seconds / share - seconds)} left"
        if not self._is_terminal:
            return f"{share:.0%}: {text}"
        full = round(share * _BAR)
        return f"[{'#' * full}{'.' * (_BAR - full)}] {share:4.0%}  {text}"


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    minutes, whole_seconds = divmod(int(seconds), _MINUTE)
    if seconds < _HOUR:
        return f"{minutes} min {whole_seconds:02} s"
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours:,} h {minutes:02} min"
