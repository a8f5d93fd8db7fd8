"""What happens in the embedding cache, counted: saved tokens, and where vectors came from."""

import json

from stepwell.core.embedding_events import (
    EmbeddingDrifted,
    EmbeddingInvalid,
    EmbeddingsComputed,
    EmbeddingsNotKept,
    EmbeddingsServed,
    Source,
)
from stepwell.core.events import Degraded, Event
from stepwell.telemetry import catalogue
from stepwell.telemetry.catalogue import Metric
from stepwell.telemetry.embedding_counts import EmbeddingCounts
from stepwell.telemetry.meters import Meters
from stepwell.telemetry.prices import ModelPrice, Prices
from stepwell.telemetry.savings import EmbeddingsLine, as_json, draw_up
from stepwell.telemetry.savings_text import render_statement


class Heard:
    """Keeps what an operator would read."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def value(meters: Meters, metric: Metric, **labels: str) -> float:
    return sum(
        value
        for series, value in meters.values().items()
        if series.name == metric.name and labels.items() <= dict(series.labels).items()
    )


def test_each_event_has_its_counter() -> None:
    """And what somebody should look at is told."""
    meters, heard = Meters(), Heard()
    counts = EmbeddingCounts(meters, heard)
    counts.emit(EmbeddingsComputed("m", 3, 12, 0.5))
    counts.emit(EmbeddingInvalid("redis"))
    counts.emit(EmbeddingsNotKept(4, "versions"))
    counts.emit(EmbeddingDrifted("m", "m-1", 0.7))
    counts.emit(Degraded("embedding.disk", "full"))
    assert value(meters, catalogue.EMBEDDING_COMPUTED, model="m") == 3
    assert value(meters, catalogue.EMBEDDING_INVALID, tier="redis") == 1
    assert value(meters, catalogue.EMBEDDING_NOT_KEPT, why="versions") == 4
    drifted, degraded = heard.events
    assert isinstance(drifted, Degraded)
    assert "m answers a known text otherwise (0.7" in drifted.error
    assert "version m-1" in drifted.error
    assert degraded == Degraded("embedding.disk", "full")


def test_the_ledger_has_a_line_of_its_own() -> None:
    """Texts by what became of them; tokens and money by the model's price."""
    meters = Meters(Prices("EUR", {"m": ModelPrice(2.0, 0.0)}))
    counts = EmbeddingCounts(meters, Heard())
    texts = {Source.MEMORY: 5, Source.DISK: 2, Source.SHARED: 1, Source.ORIGIN: 2}
    counts.emit(EmbeddingsServed("m", texts, 1_000_000, 0.1))
    counts.emit(EmbeddingsServed("free", {Source.REDIS: 1}, 7, 0.1))
    statement = draw_up(meters.values())
    assert statement.embeddings == EmbeddingsLine(11, 8, 1, 2, 1_000_007, {"EUR": 2.0})
    assert (statement.saved.prompt_tokens, statement.saved.unpriced_tokens) == (1_000_007, 7)
    assert """
texts embedded           11
  known                   8  72.7%
  another's call          1   9.1%
  computed                2  18.2%
  tokens saved    1,000,007
""" in render_statement(statement)
    assert json.loads(as_json(statement))["embeddings"]["known"] == 8


def test_without_texts_there_is_no_line() -> None:
    """Most gateways embed none."""
    statement = draw_up({})
    assert statement.embeddings is None
    assert "embedded" not in render_statement(statement)
