"""What fails without a command failing, on standard error."""

import sys

from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.events import Bypassed, Degraded, Event


class Complaints:
    """Says what fails. A sink of all events."""

    def emit(self, event: Event | EmbeddingEvent) -> None:
        """Print ``event``, if it is of that kind."""
        match event:
            case Degraded(component, error):
                print(f"stepwell: {component}: {error}", file=sys.stderr)
            case Bypassed(part, reason):
                print(f"stepwell: {part}: {reason}", file=sys.stderr)
            case _:
                pass
