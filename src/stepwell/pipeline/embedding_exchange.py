"""One request for vectors and its reply, counted once however it ends."""

from stepwell.core.clock import Clock
from stepwell.core.entry import Usage
from stepwell.core.errors import RequestError, UpstreamError
from stepwell.core.events import RequestEnded, Result
from stepwell.core.names import Namespace
from stepwell.core.ports import EventSink
from stepwell.pipeline.embedding_asks import EmbeddingAsk, ForeignAsk
from stepwell.pipeline.embeddings import Answered, Forwarded, Refusal, Vectors
from stepwell.pipeline.exchange import CLIENT_CLOSED, INTERNAL_ERROR, NOBODY, spell

ENDPOINT = "embeddings"
LAYER = "embedding"

_OK = 200
_NO_USAGE = Usage()


class EmbeddingExchange:
    """What is known of one request while it is answered. End it exactly once."""

    def __init__(self, *, clock: Clock, events: EventSink) -> None:
        """Begin now."""
        self._clock = clock
        self._events = events
        self._started = clock.monotonic()
        self.ask: EmbeddingAsk | ForeignAsk | None = None
        self.has_begun = False
        """Whether part of a reply was handed over."""

    def end(self, answered: Answered) -> None:
        """Count the request as one that was answered so."""
        match answered:
            case Vectors():
                self._emit(answered.result, _OK, say(answered), answered.tokens)
            case Refusal(status):
                self._emit(Result.MISS, status, f"the model server answered {status}")
            case Forwarded(reply, reason):
                self._emit(Result.BYPASS, reply.status, f"bypass: {reason}")

    def abandon(self) -> None:
        """Count the request as one whose client left."""
        self._emit(Result.CANCELLED, CLIENT_CLOSED, "")

    def fail(self, error: BaseException) -> None:
        """Count the request as one that ended with ``error``."""
        match error:
            case RequestError():
                self._emit(Result.REJECTED, error.status, str(error))
            case UpstreamError():
                self._emit(Result.ERROR, error.status, str(error))
            case _:
                self._emit(Result.ERROR, INTERNAL_ERROR, type(error).__name__)

    def stop(self, status: int) -> None:
        """Count the request as one that the gateway's end cut short."""
        self._emit(Result.CANCELLED, status, "")

    def _emit(self, result: Result, status: int, trail: str, tokens: int = 0) -> None:
        seconds = self._clock.monotonic() - self._started
        ask = self.ask
        self._events.emit(
            RequestEnded(
                result=result,
                layer=LAYER if result is Result.HIT else NOBODY,
                request_class=NOBODY,
                endpoint=ENDPOINT,
                model=NOBODY if ask is None else ask.model,
                upstream=NOBODY if ask is None else ask.sending.target.upstream.name,
                status=status,
                stream=False,
                seconds=seconds,
                first_byte_seconds=seconds,
                # What a hit saves is counted text by text, also where only some were known.
                usage=Usage(tokens) if result is Result.MISS else _NO_USAGE,
                saved_seconds=0.0,
                trail=trail,
                tenant=spell(_namespace(ask)),
            )
        )


def say(vectors: Vectors) -> str:
    """Return where the vectors came from, in a few words."""
    return "embedding: " + ", ".join(
        f"{count} from {source}" for source, count in sorted(vectors.sources.items())
    )


def _namespace(ask: EmbeddingAsk | ForeignAsk | None) -> Namespace | None:
    return None if ask is None else ask.sending.namespace
