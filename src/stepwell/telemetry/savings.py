"""The ledger's last screen: what the cache answered, saved, and what was spent all the same."""

from collections import defaultdict
from dataclasses import dataclass

import orjson

from stepwell.core.embedding_events import Source
from stepwell.core.events import Result
from stepwell.telemetry import catalogue
from stepwell.telemetry.catalogue import Metric
from stepwell.telemetry.embedding_counts import LAYER
from stepwell.telemetry.meters import SAVING_RESULTS
from stepwell.telemetry.precision import JudgedLine, judged_lines
from stepwell.telemetry.series import Series, Values

_ASKED_RESULTS = (*SAVING_RESULTS, Result.MISS, Result.ERROR)
"""Results of requests that the cache was asked about and that came to an end."""


@dataclass(frozen=True, slots=True)
class Account:
    """Tokens, time and money, saved or spent."""

    prompt_tokens: int
    completion_tokens: int
    seconds: float
    """Time of model servers."""
    money: dict[str, float]
    """By currency; empty where no price table was set."""
    unpriced_tokens: int
    """Tokens of models that the price table did not name: ``money`` leaves them out."""


@dataclass(frozen=True, slots=True)
class PrefixLine:
    """Prompt tokens that one upstream read, by what it says of its own prefix cache."""

    upstream: str
    cached_tokens: int
    computed_tokens: int
    unsaid_tokens: int
    """Of answers that do not say."""
    cached_share: float | None
    """Of the tokens of which it says; ``None`` where it never does."""


@dataclass(frozen=True, slots=True)
class EmbeddingsLine:
    """What became of texts whose vectors were asked for; equal texts of a request count once."""

    texts: int
    known: int
    """Their vectors were kept."""
    shared: int
    """Another's call at the same time made them."""
    computed: int
    tokens_saved: int
    money_saved: dict[str, float]
    """By currency; empty where no price table was set."""


@dataclass(frozen=True, slots=True)
class LayerLine:
    """What one layer did."""

    layer: str
    """Its name; ``none`` for answers of other requests' calls."""
    answers: int
    """Requests answered without a model server call of their own."""
    tokens: int
    seconds: float
    money: dict[str, float]


@dataclass(frozen=True, slots=True)
class ClassLine:
    """How requests of one class fared."""

    request_class: str
    requests: int
    answers: int
    hit_ratio: float | None
    seconds: float
    """Saved time of model servers."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What a ledger comes to."""

    since: float | None
    """When counting began, in Unix time, where known."""
    requests: int
    by_result: dict[str, int]
    hit_ratio: float | None
    """Share of the requests that the cache was asked about (not bypassed, rejected or cancelled)
    and answered without a model server call of their own; ``None`` before the first."""
    calls_avoided: int
    """Requests so answered. What refreshing stale answers cost is in ``spent``."""
    calls_made: int
    """Calls to model servers that were answered; `calls_failed` come on top."""
    calls_failed: int
    saved: Account
    spent: Account
    layers: tuple[LayerLine, ...]
    """Layers that answered something, by answers."""
    classes: tuple[ClassLine, ...]
    """Request classes, by requests."""
    judged: tuple[JudgedLine, ...]
    """What is known of answers to other words, by class and way of judging."""
    prefixes: tuple[PrefixLine, ...]
    """What upstreams say of their prefix caches, by prompt tokens."""
    embeddings: EmbeddingsLine | None = None
    """Texts embedded; ``None``: there were none."""


def draw_up(values: Values, since: float | None = None) -> Statement:
    """Draw up the statement of ``values``: a ledger's totals, or one process's meters."""
    books = _Books(values)
    by_result = books.grouped(catalogue.REQUESTS, "outcome")
    return Statement(
        since=since,
        requests=int(books.sum(catalogue.REQUESTS)),
        by_result={
            result: int(by_result[result]) for result in map(str, Result) if result in by_result
        },
        hit_ratio=_ratio(by_result),
        calls_avoided=_answers(by_result),
        calls_made=int(books.sum_named(f"{catalogue.UPSTREAM_SECONDS.name}_bucket")),
        calls_failed=int(books.sum(catalogue.UPSTREAM_ERRORS)),
        saved=_saved(books),
        spent=_spent(books),
        layers=_layers(books),
        classes=_classes(books),
        judged=judged_lines(values),
        prefixes=_prefixes(books),
        embeddings=_embeddings(books),
    )


def as_json(statement: Statement) -> bytes:
    """Return ``statement`` as an indented JSON object with its fields' names."""
    return orjson.dumps(statement, option=orjson.OPT_INDENT_2)


class _Books:
    """Sums over the series of a metric."""

    def __init__(self, values: Values) -> None:
        self._by_name: defaultdict[str, list[tuple[Series, float]]] = defaultdict(list)
        for series, value in values.items():
            self._by_name[series.name].append((series, value))

    def sum(self, metric: Metric, **labels: str) -> float:
        """Return the sum over all series of ``metric`` with these label values."""
        return self.sum_named(metric.name, **labels)

    def sum_named(self, name: str, **labels: str) -> float:
        """Return the same for a histogram's part."""
        wanted = labels.items()
        return sum(
            value for series, value in self._by_name[name] if wanted <= dict(series.labels).items()
        )

    def grouped(self, metric: Metric, label: str, **labels: str) -> dict[str, float]:
        """Return such sums by the value of ``label``."""
        names = dict.fromkeys(series.label(label) for series, _ in self._by_name[metric.name])
        return {name: self.sum(metric, **labels, **{label: name}) for name in names}


def _answers(by_result: dict[str, float]) -> int:
    return int(sum(by_result.get(result, 0) for result in SAVING_RESULTS))


def _ratio(by_result: dict[str, float]) -> float | None:
    asked = sum(by_result.get(result, 0) for result in _ASKED_RESULTS)
    return _answers(by_result) / asked if asked else None


def _saved(books: _Books) -> Account:
    return Account(
        prompt_tokens=int(books.sum(catalogue.SAVED_TOKENS, kind="prompt")),
        completion_tokens=int(books.sum(catalogue.SAVED_TOKENS, kind="completion")),
        seconds=books.sum(catalogue.SAVED_SECONDS),
        money=books.grouped(catalogue.SAVED_MONEY, "currency"),
        unpriced_tokens=int(books.sum(catalogue.UNPRICED_TOKENS, account="saved")),
    )


def _spent(books: _Books) -> Account:
    return Account(
        prompt_tokens=int(books.sum(catalogue.SPENT_TOKENS, kind="prompt")),
        completion_tokens=int(books.sum(catalogue.SPENT_TOKENS, kind="completion")),
        seconds=books.sum_named(f"{catalogue.UPSTREAM_SECONDS.name}_sum"),
        money=books.grouped(catalogue.SPENT_MONEY, "currency"),
        unpriced_tokens=int(books.sum(catalogue.UNPRICED_TOKENS, account="spent")),
    )


def _layers(books: _Books) -> tuple[LayerLine, ...]:
    lines = (
        LayerLine(
            layer=layer,
            answers=_answers(books.grouped(catalogue.REQUESTS, "outcome", layer=layer)),
            tokens=int(books.sum(catalogue.SAVED_TOKENS, layer=layer)),
            seconds=books.sum(catalogue.SAVED_SECONDS, layer=layer),
            money=books.grouped(catalogue.SAVED_MONEY, "currency", layer=layer),
        )
        for layer in books.grouped(catalogue.REQUESTS, "layer")
    )
    return tuple(sorted((line for line in lines if line.answers), key=lambda line: -line.answers))


def _embeddings(books: _Books) -> EmbeddingsLine | None:
    by_source = {
        source: int(texts)
        for source, texts in books.grouped(catalogue.EMBEDDING_TEXTS, "source").items()
    }
    texts = sum(by_source.values())
    if not texts:
        return None
    shared = by_source.get(Source.SHARED, 0)
    computed = by_source.get(Source.ORIGIN, 0)
    return EmbeddingsLine(
        texts=texts,
        known=texts - shared - computed,
        shared=shared,
        computed=computed,
        tokens_saved=int(books.sum(catalogue.SAVED_TOKENS, layer=LAYER)),
        money_saved=books.grouped(catalogue.SAVED_MONEY, "currency", layer=LAYER),
    )


def _prefixes(books: _Books) -> tuple[PrefixLine, ...]:
    lines = []
    for name in books.grouped(catalogue.PREFIX_TOKENS, "upstream"):
        of_kind = books.grouped(catalogue.PREFIX_TOKENS, "kind", upstream=name)
        cached, computed = of_kind.get("cached", 0), of_kind.get("computed", 0)
        said = cached + computed
        lines.append(
            PrefixLine(
                upstream=name,
                cached_tokens=int(cached),
                computed_tokens=int(computed),
                unsaid_tokens=int(of_kind.get("unsaid", 0)),
                cached_share=cached / said if said else None,
            )
        )
    return tuple(sorted(lines, key=lambda line: -_read(line)))


def _read(line: PrefixLine) -> int:
    return line.cached_tokens + line.computed_tokens + line.unsaid_tokens


def _classes(books: _Books) -> tuple[ClassLine, ...]:
    lines = []
    for name, requests in books.grouped(catalogue.REQUESTS, "class").items():
        by_result = books.grouped(catalogue.REQUESTS, "outcome", **{"class": name})
        seconds = books.sum(catalogue.SAVED_SECONDS, **{"class": name})
        lines.append(
            ClassLine(name, int(requests), _answers(by_result), _ratio(by_result), seconds)
        )
    return tuple(sorted(lines, key=lambda line: -line.requests))
