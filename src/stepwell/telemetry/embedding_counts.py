"""Counts what happens in the embedding cache."""

from typing import assert_never

from stepwell.core.embedding_events import (
    EmbeddingDrifted,
    EmbeddingEvent,
    EmbeddingInvalid,
    EmbeddingsComputed,
    EmbeddingsNotKept,
    EmbeddingsServed,
)
from stepwell.core.entry import Usage
from stepwell.core.events import Degraded
from stepwell.core.ports import EventSink
from stepwell.telemetry import catalogue
from stepwell.telemetry.meters import Meters

LAYER = "embedding"
"""In metrics that count by layer."""


class EmbeddingCounts:
    """An `EmbeddingSink`. For one event loop."""

    def __init__(self, meters: Meters, events: EventSink) -> None:
        """Count in ``meters``; what an operator should read goes to ``events`` too."""
        self._meters = meters
        self._events = events

    def emit(self, event: EmbeddingEvent) -> None:
        """Count ``event``."""
        count = self._meters.count
        match event:
            case EmbeddingsServed():
                self._count_served(event)
            case EmbeddingsComputed(model, texts):
                count(catalogue.EMBEDDING_COMPUTED, texts, model)
            case EmbeddingInvalid(tier):
                count(catalogue.EMBEDDING_INVALID, 1, tier)
            case EmbeddingsNotKept(vectors, why):
                count(catalogue.EMBEDDING_NOT_KEPT, vectors, why)
            case EmbeddingDrifted():
                self._events.emit(Degraded("embedding.model", _say(event)))
            case Degraded():
                self._events.emit(event)
            case _:
                assert_never(event)

    def _count_served(self, event: EmbeddingsServed) -> None:
        for source, texts in event.texts.items():
            self._meters.count(catalogue.EMBEDDING_TEXTS, texts, source)
        if event.saved_tokens:
            self._meters.count_saved(Usage(event.saved_tokens), layer=LAYER, model=event.model)


def _say(drifted: EmbeddingDrifted) -> str:
    return (
        f"{drifted.model} answers a known text otherwise ({drifted.distance:.3g} of the vector's"
        f" length): version {drifted.version} is neither served nor kept until"
        " embedding.models names a new revision"
    )
