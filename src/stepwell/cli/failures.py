"""What fails without a command's failing."""

import sys
from typing import TYPE_CHECKING

from stepwell.core.events import Bypassed, Degraded
from stepwell.study.terminal import visible

if TYPE_CHECKING:  # An extra brings what they need.
    from stepwell.core.embedding_events import EmbeddingEvent
    from stepwell.core.events import Event


class OnStandardError:
    """Takes events, and says what fails."""

    def emit(self, event: "Event | EmbeddingEvent") -> None:
        """Print ``event``, if it is of that kind."""
        match event:
            case Degraded(component, error):
                print(f"stepwell: {component}: {visible(str(error))}", file=sys.stderr)
            case Bypassed(part, reason):
                print(f"stepwell: {part}: {reason}", file=sys.stderr)
            case _:
                pass
