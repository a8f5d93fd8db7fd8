"""What fails without a command's failing."""

import sys
from typing import TYPE_CHECKING

from stepwell.core.events import Bypassed, Degraded
from stepwell.study.terminal import visible

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.core.embedding_events import EmbeddingEvent
    from stepwell.core.events import Event


class OnStandardError:
    """Takes events, and says what fails; the same thing once."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self._said: set[str] = set()

    def emit(self, event: "Event | EmbeddingEvent") -> None:
        """Print ``event``, if it is of that kind."""
        match event:
            case Degraded(component, error):
                self._say(f"{component}: {visible(str(error))}")
            case Bypassed(part, reason):
                self._say(f"{part}: {reason}")
            case _:
                pass

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            print(f"stepwell: {what}", file=sys.stderr)
