"""Counts events. Everything the metrics page and the savings ledger say starts here."""

from typing import assert_never

from stepwell.core.entry import Usage
from stepwell.core.events import (
    Bypassed,
    CachedTokensCompared,
    Degraded,
    Event,
    Evicted,
    FillRefused,
    HitJudged,
    HitNotJudged,
    HitWithheld,
    LeaderLost,
    NotWarmed,
    Placed,
    RequestEnded,
    Result,
    Resumed,
    SemanticLookup,
    StageTimed,
    Stored,
    UpstreamAnswered,
    UpstreamFailed,
    Warmed,
    WarmedUp,
)
from stepwell.telemetry import catalogue
from stepwell.telemetry.catalogue import Kind, Metric
from stepwell.telemetry.families import CounterFamily, Histogram, HistogramFamily, LabelBounds
from stepwell.telemetry.prices import ModelPrice, Prices
from stepwell.telemetry.series import Series

SAVING_RESULTS = (Result.HIT, Result.STALE, Result.COLLAPSED)
"""Results that gave an answer without a call to a model server of their own."""


class _Tally:
    """What the hot path adds up for requests that are alike, until it is posted to the counters.

    One dictionary look-up finds it; then counting is a few additions to its slots, instead of
    one look-up for each of the eight series a hit adds to.
    """

    __slots__ = (
        *("cached_tokens", "completion_tokens", "first_byte", "layer", "model", "price"),
        *(
            "prompt_tokens",
            "request_class",
            "requests",
            "result",
            "saved_seconds",
            "saves",
            "seconds",
        ),
    )

    def __init__(
        self,
        *,
        result: Result,
        layer: str,
        request_class: str,
        model: str,
        price: ModelPrice | None,
        seconds: Histogram,
        first_byte: Histogram,
    ) -> None:
        self.result = result
        self.layer = layer
        self.request_class = request_class
        self.model = model
        self.price = price
        self.saves = result in SAVING_RESULTS
        self.seconds = seconds
        self.first_byte = first_byte
        self.clear()

    def clear(self) -> None:
        """Start again from nothing."""
        self.requests = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.saved_seconds = 0.0


_TallyKey = tuple[Result, str, str, str]


class Meters:
    """In-memory counters and histograms of one worker process; an `EventSink`.

    For one event loop; no locks. `emit` of a request costs about a microsecond
    (`benchmarks/telemetry.py`). Memory is bounded: see `LabelBounds`.
    """

    def __init__(self, prices: Prices | None = None, bounds: LabelBounds | None = None) -> None:
        """Start all counts at 0.

        Args:
            prices: What tokens cost; no money is counted without.
            bounds: How many values a label may take.
        """
        self._prices = prices
        self._bounds = bounds or LabelBounds()
        self._tallies: dict[_TallyKey, _Tally] = {}
        self._others: dict[tuple[_TallyKey, ModelPrice | None], _Tally] = {}
        self._counters = {
            metric: CounterFamily(metric, self._bounds)
            for metric in catalogue.CATALOGUE
            if metric.kind is Kind.COUNTER
        }
        self._histograms = {
            metric: HistogramFamily(metric, self._bounds)
            for metric in catalogue.CATALOGUE
            if metric.kind is Kind.HISTOGRAM
        }

    def emit(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915  (one arm per event)
        """Count ``event``."""
        match event:
            case RequestEnded():  # first, as only this one is on the hot path
                self._count_request(event)
            case StageTimed(stage, seconds):
                self._histograms[catalogue.STAGE_SECONDS].at(stage).observe(seconds)
            case UpstreamAnswered():
                self._count_answered(event)
            case UpstreamFailed(upstream, kind):
                self._add(catalogue.UPSTREAM_ERRORS, 1, upstream, kind)
            case Stored(request_class, size_bytes):
                self._add(catalogue.STORED, 1, request_class)
                self._add(catalogue.STORED_BYTES, size_bytes, request_class)
            case FillRefused(gate, request_class):
                self._add(catalogue.FILL_REFUSED, 1, gate, request_class)
            case Evicted(tier, reason, entries, size_bytes):
                self._add(catalogue.EVICTIONS, entries, tier, reason)
                self._add(catalogue.EVICTED_BYTES, size_bytes, tier, reason)
            case SemanticLookup(outcome, level, similarity, seconds):
                self._add(catalogue.SEMANTIC_LOOKUPS, 1, outcome, level)
                self._histograms[catalogue.SEMANTIC_SECONDS].at().observe(seconds)
                self._histograms[catalogue.SEMANTIC_SIMILARITY].at(outcome).observe(similarity)
            case HitJudged() | HitNotJudged() | HitWithheld():
                self._count_judgement(event)
            case Placed(upstream, replica, why):
                self._add(catalogue.REPLICA_REQUESTS, 1, upstream, replica, why)
            case CachedTokensCompared():
                self._count_compared(event)
            case Warmed(upstream, usage):
                for kind, tokens in _by_prefix(usage):
                    self._add(catalogue.WARMED_TOKENS, tokens, kind, upstream)
            case NotWarmed(upstream, why):
                self._add(catalogue.NOT_WARMED, 1, why, upstream)
            case WarmedUp(upstream, replica):
                self._add(catalogue.WARM_UPS, 1, upstream, replica)
            case LeaderLost(midway):
                self._add(catalogue.LEADERS_LOST, 1, "midway" if midway else "before")
            case Degraded(component):
                self._add(catalogue.FAILURES, 1, component)
            case Bypassed(part):
                self._add(catalogue.FAILURES, 1, part)
            case Resumed():
                pass  # `catalogue.DEGRADED` says it.
            case _:
                assert_never(event)

    def count(self, metric: Metric, amount: float, *labels: str) -> None:
        """Add to a counter; ``labels`` are its label values in the catalogue's order."""
        self._add(metric, amount, *labels)

    def count_saved(self, usage: Usage, *, layer: str, model: str) -> None:
        """Count tokens that no model server had to read or write, and what they would cost."""
        for kind, tokens in _by_kind(usage):
            self._add(catalogue.SAVED_TOKENS, tokens, kind, layer, model)
        self._count_money(usage, layer, self._prices.of(model) if self._prices else None)

    def values(self) -> dict[Series, float]:
        """Return all counts since the start.

        Costs a few hundred nanoseconds for each series that is not 0; must be called on the
        event loop that emits.
        """
        for tally in (*self._tallies.values(), *self._others.values()):
            if tally.requests:
                self._post(tally)
        values: dict[Series, float] = {}
        for counters in self._counters.values():
            counters.read_into(values)
        for histograms in self._histograms.values():
            histograms.read_into(values)
        return values

    def _count_request(self, event: RequestEnded) -> None:
        tally = self._tallies.get((event.result, event.layer, event.request_class, event.model))
        if tally is None:
            tally = self._new_tally(event)
        tally.requests += 1
        tally.seconds.observe(event.seconds)
        if event.stream:
            tally.first_byte.observe(event.first_byte_seconds)
        if tally.saves:
            usage = event.usage
            tally.prompt_tokens += usage.prompt_tokens
            tally.completion_tokens += usage.completion_tokens
            tally.cached_tokens += usage.cached_tokens or 0
            tally.saved_seconds += event.saved_seconds

    def _new_tally(self, event: RequestEnded) -> _Tally:
        model = self._bounds.admit("model", event.model)
        price = self._prices.of(event.model) if self._prices else None
        tally = _Tally(
            result=event.result,
            layer=event.layer,
            request_class=event.request_class,
            model=model,
            price=price,
            seconds=self._histograms[catalogue.REQUEST_SECONDS].at(event.result),
            first_byte=self._histograms[catalogue.FIRST_BYTE_SECONDS].at(event.result),
        )
        key = (event.result, event.layer, event.request_class, model)
        if model == event.model:
            return self._tallies.setdefault(key, tally)
        # Unbounded names must not be remembered; those of one price share a tally.
        return self._others.setdefault((key, price), tally)

    def _count_answered(self, event: UpstreamAnswered) -> None:
        upstream_seconds = self._histograms[catalogue.UPSTREAM_SECONDS]
        upstream_seconds.at(event.upstream).observe(event.seconds)
        first_byte_seconds = self._histograms[catalogue.UPSTREAM_FIRST_BYTE_SECONDS]
        first_byte_seconds.at(event.upstream).observe(event.first_byte_seconds)
        for kind, tokens in _by_kind(event.usage):
            self._add(catalogue.SPENT_TOKENS, tokens, kind, event.model)
        for kind, tokens in _by_prefix(event.usage):
            self._add(catalogue.PREFIX_TOKENS, tokens, kind, event.upstream)
        if self._prices is None:
            return
        price = self._prices.of(event.model)
        if price is None:
            self._add(catalogue.UNPRICED_TOKENS, _total(event.usage), "spent")
        else:
            self._add(catalogue.SPENT_MONEY, price.of(event.usage), self._prices.currency)

    def _count_compared(self, event: CachedTokensCompared) -> None:
        cached = min(event.cached_tokens, event.prompt_tokens)
        for kind, tokens in (
            ("prompt", event.prompt_tokens),
            ("foretold", event.foretold_tokens),
            ("cached", cached),
            ("met", min(cached, event.foretold_tokens)),
        ):
            self._add(catalogue.FORETOLD_TOKENS, tokens, event.upstream, event.replica, kind)

    def _count_judgement(self, event: HitJudged | HitNotJudged | HitWithheld) -> None:
        match event:
            case HitJudged(verdict, by, request_class):
                self._add(catalogue.JUDGED, 1, verdict, by, request_class)
            case HitNotJudged(why, by, request_class):
                self._add(catalogue.NOT_JUDGED, 1, why, by, request_class)
            case HitWithheld(request_class):
                self._add(catalogue.WITHHELD, 1, request_class)

    def _post(self, tally: _Tally) -> None:
        """Move what ``tally`` holds to the counters."""
        result, layer, request_class = tally.result, tally.layer, tally.request_class
        self._add(catalogue.REQUESTS, tally.requests, result, layer, request_class)
        if tally.saves:
            usage = Usage(tally.prompt_tokens, tally.completion_tokens, tally.cached_tokens)
            for kind, tokens in _by_kind(usage):
                self._add(catalogue.SAVED_TOKENS, tokens, kind, layer, tally.model)
            self._add(catalogue.SAVED_SECONDS, tally.saved_seconds, layer, request_class)
            self._count_money(usage, layer, tally.price)
        tally.clear()

    def _count_money(self, usage: Usage, layer: str, price: ModelPrice | None) -> None:
        if self._prices is None:
            return
        if price is None:
            self._add(catalogue.UNPRICED_TOKENS, _total(usage), "saved")
        else:
            self._add(catalogue.SAVED_MONEY, price.of(usage), self._prices.currency, layer)

    def _add(self, metric: Metric, amount: float, *labels: str) -> None:
        self._counters[metric].at(*labels).value += amount


def _by_kind(usage: Usage) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("prompt", usage.prompt_tokens), ("completion", usage.completion_tokens)


def _by_prefix(usage: Usage) -> tuple[tuple[str, int], ...]:
    if usage.cached_tokens is None:
        return (("unsaid", usage.prompt_tokens),)
    computed = usage.prompt_tokens - usage.cached_tokens
    return ("cached", usage.cached_tokens), ("computed", computed)


def _total(usage: Usage) -> int:
    return usage.prompt_tokens + usage.completion_tokens
