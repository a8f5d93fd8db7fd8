"""What the connector counts, in vLLM's log and on its ``/metrics``. Needs vLLM."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import prometheus_client
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
    PromMetric,
)

METRIC = "vllm:stepwell_kv"
"""Prometheus counter; its label ``event`` says what is counted."""


@dataclass
class ConnectorStats(KVConnectorStats):  # type: ignore[misc]
    """Events of an interval, by name."""

    data: dict[str, int] = field(default_factory=dict)

    def reset(self) -> None:
        """Count from zero."""
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> "ConnectorStats":
        """Return the sum of both."""
        return ConnectorStats(dict(Counter(self.data) + Counter(other.data)))

    def reduce(self) -> dict[str, int | float]:
        """Return what vLLM writes to its log."""
        return dict(self.data)

    def is_empty(self) -> bool:
        """Return whether there is nothing to tell."""
        return not self.data


class StatsSource:
    """Turns counts since the start into what is new."""

    def __init__(self) -> None:
        self._told: Counter[str] = Counter()

    def news(self, counted: Mapping[str, int]) -> ConnectorStats | None:
        """Return what has been counted since the last call; ``None`` if nothing was."""
        new = Counter(counted) - self._told
        self._told = Counter(counted)
        return ConnectorStats(dict(new)) if new else None


class PrometheusStats(KVConnectorPromMetrics):  # type: ignore[misc]
    """The same as Prometheus counters."""

    def __init__(
        self,
        vllm_config: VllmConfig,
        metric_types: dict[type[PromMetric], type[PromMetric]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        """Register the metric."""
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counter = metric_types[prometheus_client.Counter](
            name=METRIC,
            documentation="Stepwell's KV blocks: files read, written, refused, evicted; bytes.",
            labelnames=[*labelnames, "event"],
        )

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Add what happened in an interval."""
        for event, number in transfer_stats_data.items():
            labels = (*self.per_engine_labelvalues[engine_idx], event)
            self._counter.labels(*labels).inc(number)
