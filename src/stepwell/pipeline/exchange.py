"""One request and its reply, counted once however it ends."""

from stepwell.core.clock import Clock
from stepwell.core.entry import Usage
from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import RequestEnded, Result, StageTimed
from stepwell.core.names import Namespace
from stepwell.core.outcome import Hit, Stale
from stepwell.core.ports import EventSink
from stepwell.pipeline.question import Question
from stepwell.pipeline.served import Served

_NO_USAGE = Usage()
_LAYERS = frozenset({Result.HIT, Result.STALE})
NOBODY = "none"
INTERNAL_ERROR = 500
CLIENT_CLOSED = 499
"""Nginx's status for a client that left; only the log sees it."""


class Exchange:
    """What is known of one request while it is answered. `end` it exactly once."""

    def __init__(self, endpoint: str, *, clock: Clock, events: EventSink) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._events = events
        self._started = self._stage_began = clock.monotonic()
        self._first_byte: float | None = None
        self.question: Question | None = None
        self.served: Served | None = None

    @property
    def has_begun(self) -> bool:
        """Whether part of a reply was handed over."""
        return self._first_byte is not None

    def stage(self, name: str) -> None:
        """Note that a stage has ended, and the next begun."""
        now = self._clock.monotonic()
        self._events.emit(StageTimed(name, now - self._stage_began))
        self._stage_began = now

    def began(self) -> None:
        """Note that the reply's first byte was handed over."""
        if self._first_byte is None:
            self._first_byte = self._clock.monotonic()

    def end(self, result: Result | None = None, *, status: int = 0, trail: str = "") -> None:
        """Count the request.

        Args:
            result: How it ended; what was served says by default.
            status: HTTP status; what was served says by default.
            trail: What else there is to say.
        """
        now = self._clock.monotonic()
        question, served = self.question, self.served
        if result is None:
            result = served.result if served is not None else Result.ERROR
        steps = served.trail if served is not None else ()
        self._events.emit(
            RequestEnded(
                result=result,
                layer=_layer(served, result),
                request_class=question.request_class.name if question else NOBODY,
                endpoint=self._endpoint,
                model=question.model if question else NOBODY,
                upstream=question.upstream if question else NOBODY,
                status=status or (served.status if served is not None else 0),
                stream=question is not None and question.shape.form == "sse",
                seconds=now - self._started,
                first_byte_seconds=(self._first_byte or now) - self._started,
                usage=(served.usage if served is not None else None) or _NO_USAGE,
                saved_seconds=served.saved_seconds if served is not None else 0.0,
                trail=" · ".join([*steps, trail] if trail else steps),
                tenant=spell(question.namespace) if question else "",
            )
        )

    def abandon(self) -> None:
        """Count the request as one whose client left."""
        self.end(Result.CANCELLED, status=CLIENT_CLOSED)

    def fail(self, error: Exception) -> None:
        """Count the request as one that ended with ``error``."""
        match error:
            case RequestError():
                self.end(Result.REJECTED, status=error.status, trail=str(error))
            case UpstreamError():
                self.end(Result.ERROR, status=error.status, trail=str(error))
            case _:
                self.end(Result.ERROR, status=INTERNAL_ERROR, trail=type(error).__name__)


def _layer(served: Served | None, result: Result) -> str:
    """Return the layer that answered."""
    outcome = served.outcome if served is not None and result in _LAYERS else None
    return outcome.layer if isinstance(outcome, Hit | Stale) else NOBODY


def spell(namespace: Namespace | None) -> str:
    """Return a namespace as it is written; empty for nobody's."""
    return namespace.hex() if namespace is not None else ""
