"""What ``/metrics`` of the torch engine's process shows. Needs the ``gateway`` extra."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stepwell.engines.torch.counts import EngineCounts
from stepwell.prefix.figures import CacheFigures


def exposition(
    figures: Callable[[], CacheFigures], counts: EngineCounts, active: Callable[[], int]
) -> Callable[[], bytes]:
    """Return what renders the cache's figures and the engine's counts, in Prometheus's format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(figures, counts, active))
    return lambda: generate_latest(registry)


class _Figures(Collector):
    def __init__(
        self, figures: Callable[[], CacheFigures], counts: EngineCounts, active: Callable[[], int]
    ) -> None:
        self._figures = figures
        self._counts = counts
        self._active = active

    def collect(self) -> Iterable[Metric]:
        figures = self._figures()
        yield from _of_shelves(figures)
        yield from _of_cache(figures)
        yield from _of_engine(self._counts, self._active())


def _of_shelves(figures: CacheFigures) -> Iterable[Metric]:
    used = GaugeMetricFamily("stepwell_kv_bytes", "Of KV blocks on a shelf.", labels=["shelf"])
    most = GaugeMetricFamily("stepwell_kv_max_bytes", "A shelf's bound.", labels=["shelf"])
    hits = CounterMetricFamily(
        "stepwell_kv_hit_tokens", "Tokens loaded from a shelf.", labels=["shelf"]
    )
    gone = CounterMetricFamily(
        "stepwell_kv_evicted_blocks", "Blocks that left a shelf.", labels=["shelf", "reason"]
    )
    for shelf in figures.shelves:
        name = shelf.level.name.lower()
        used.add_metric([name], shelf.bytes)
        most.add_metric([name], shelf.max_bytes)
        hits.add_metric([name], shelf.hit_tokens)
        for reason, blocks in shelf.evicted_blocks.items():
            gone.add_metric([name, reason], blocks)
    return used, most, hits, gone


def _of_cache(figures: CacheFigures) -> Iterable[Metric]:
    refused = CounterMetricFamily(
        "stepwell_kv_refused_blocks", "Blocks that were not kept.", labels=["reason"]
    )
    for reason, blocks in figures.refused_blocks.items():
        refused.add_metric([reason], blocks)
    return (
        refused,
        GaugeMetricFamily("stepwell_kv_blocks", "Kept on any shelf.", figures.blocks),
        GaugeMetricFamily("stepwell_kv_leases", "Prefixes on loan.", figures.leases),
        CounterMetricFamily("stepwell_kv_asked_tokens", "Looked up.", figures.asked_tokens),
        CounterMetricFamily("stepwell_kv_matched_tokens", "Found.", figures.matched_tokens),
        CounterMetricFamily("stepwell_kv_lost_blocks", "Damaged or gone.", figures.lost_blocks),
        CounterMetricFamily(
            "stepwell_kv_saved_seconds", "Computing saved by hits.", figures.saved_seconds
        ),
    )


def _of_engine(counts: EngineCounts, active: int) -> Iterable[Metric]:
    prompt = CounterMetricFamily(
        "stepwell_engine_prompt_tokens", "By where they came from.", labels=["source"]
    )
    computed = counts.prompt_tokens - counts.kept_tokens - counts.shared_tokens
    for source, tokens in (
        ("kept", counts.kept_tokens),
        ("shared", counts.shared_tokens),
        ("computed", computed),
    ):
        prompt.add_metric([source], tokens)
    return (
        prompt,
        GaugeMetricFamily("stepwell_engine_active_requests", "Being computed.", active),
        CounterMetricFamily("stepwell_engine_requests", "That got a slot.", counts.requests),
        CounterMetricFamily(
            "stepwell_engine_generated_tokens", "Of answers.", counts.generated_tokens
        ),
        CounterMetricFamily(
            "stepwell_engine_cut_short_answers", "Cancelled or failed.", counts.cut_short
        ),
        CounterMetricFamily(
            "stepwell_engine_cache_faults", "That cost time only.", counts.cache_faults
        ),
        CounterMetricFamily(
            "stepwell_engine_prefill_seconds", "Computing prompts.", counts.prefill_seconds
        ),
        CounterMetricFamily(
            "stepwell_engine_generate_seconds", "Computing answers.", counts.generate_seconds
        ),
    )
