"""What counting and logging cost on the hot path, and a scrape beside it.

    python benchmarks/telemetry.py [--smoke] [--json OUT]

Times are CPU time of one call, all threads of the process included: the least of many short
rounds, in which the variants alternate, as whatever else the machine does only adds to it.
"prometheus_client" is what the same counts cost with its own counters and histograms, their
labels resolved once beforehand.
"""

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram

from stepwell.core.entry import Usage
from stepwell.core.events import Event, RequestEnded, Result
from stepwell.core.ports import EventSink
from stepwell.telemetry.catalogue import (
    REQUEST_SECONDS,
    REQUESTS,
    SAVED_SECONDS,
    SAVED_TOKENS,
    Metric,
)
from stepwell.telemetry.exposition import render_metrics
from stepwell.telemetry.fanout import Fanout
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.ledger_writer import LedgerWriter
from stepwell.telemetry.log import RequestLog
from stepwell.telemetry.meters import Meters
from stepwell.testing.events import make_request_ended

TRAIL = "exact: hit in memory"
USAGE = Usage(prompt_tokens=812, completion_tokens=230)
HIT = Result.HIT


class Nothing:
    """Takes events and does nothing."""

    def emit(self, event: Event) -> None:
        """Take one event."""


class PrometheusClient:
    """The same counts by prometheus_client."""

    def __init__(self) -> None:
        registry = CollectorRegistry()

        def counter(metric: Metric) -> Counter:
            return Counter(metric.name, metric.help, metric.labels, registry=registry)

        self._requests = counter(REQUESTS).labels("hit", "exact", "general")
        self._seconds = Histogram(
            REQUEST_SECONDS.name,
            REQUEST_SECONDS.help,
            REQUEST_SECONDS.labels,
            buckets=REQUEST_SECONDS.buckets,
            registry=registry,
        ).labels("hit")
        tokens = counter(SAVED_TOKENS)
        self._prompt = tokens.labels("prompt", "exact", "model")
        self._completion = tokens.labels("completion", "exact", "model")
        self._saved_seconds = counter(SAVED_SECONDS).labels("exact", "general")

    def emit(self, event: Event) -> None:
        """Count a hit."""
        assert isinstance(event, RequestEnded)
        self._requests.inc()
        self._seconds.observe(event.seconds)
        self._prompt.inc(event.usage.prompt_tokens)
        self._completion.inc(event.usage.completion_tokens)
        self._saved_seconds.inc(event.saved_seconds)


def make_hit_by_keyword() -> RequestEnded:
    """Make the event with a usage that is there already."""
    return RequestEnded(
        result=Result.HIT,
        layer="exact",
        request_class="general",
        endpoint="chat/completions",
        model="model",
        upstream="upstream",
        status=200,
        stream=False,
        seconds=0.00003,
        first_byte_seconds=0.00003,
        usage=USAGE,
        saved_seconds=0.8,
        trail=TRAIL,
        tenant="0a1b2c3d",
    )


def make_hit_by_position() -> RequestEnded:
    """Make the same by position, and without looking the result up in its class."""
    return RequestEnded(
        HIT,
        "exact",
        "general",
        "chat/completions",
        "model",
        "upstream",
        200,
        False,  # noqa: FBT003  (the field's place is what is measured)
        0.00003,
        0.00003,
        USAGE,
        0.8,
        TRAIL,
        "0a1b2c3d",
    )


def microseconds(work: Callable[[], object], times: int) -> float:
    """Return the CPU time of one call, all threads of the process included."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times * 1e6


async def hot_path(rounds: int, times: int) -> dict[str, float]:
    """Return microseconds a call, the least over ``rounds`` that alternate the variants."""
    event = make_request_ended()
    with tempfile.TemporaryFile() as file:
        nothing, meters = Nothing(), Meters()
        log = RequestLog(file.fileno(), events=nothing)
        sinks: dict[str, EventSink] = {
            "nothing": nothing,
            "meters": meters,
            "log": log,
            "meters and log": Fanout(meters, log),
            "prometheus_client": PrometheusClient(),
        }
        variants: dict[str, Callable[[], object]] = {
            f"emit to {name}": _emitting(sink, event) for name, sink in sinks.items()
        }
        variants["make the event, by keyword"] = make_hit_by_keyword
        variants["make the event, by position"] = make_hit_by_position
        measured: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, work in variants.items():
                measured[name].append(microseconds(work, times))
                file.seek(0)
                await asyncio.sleep(0)
        await log.aclose()
    return {name: min(values) for name, values in measured.items()}


def _emitting(sink: EventSink, event: Event) -> Callable[[], object]:
    emit = sink.emit
    return lambda: emit(event)


async def beside(rounds: int, models: int) -> dict[str, float]:
    """Return microseconds of what happens once a second, or once a scrape, with many series."""
    meters = Meters()
    for model in range(models):
        for result in Result:
            meters.emit(make_request_ended(result, model=f"model-{model}", stream=True))
    with tempfile.TemporaryDirectory() as directory:
        writer = LedgerWriter(
            Path(directory) / "ledger.sqlite",
            boot="benchmark",
            meters=meters,
            gauges=Gauges("0"),
            events=meters,
        )
        writer.start()
        await writer.flush()
        measured: dict[str, list[float]] = {"flush": [], "read": [], "render": [], "values": []}
        for _ in range(rounds):
            meters.emit(make_request_ended(model="model-0"))
            measured["flush"].append(await _awaited(writer.flush))
            measured["read"].append(await _awaited(writer.read))
            reading = await writer.read()
            measured["render"].append(microseconds(lambda: render_metrics(reading), 1))  # noqa: B023
            measured["values"].append(microseconds(meters.values, 1))
        await writer.aclose()
    return {
        "series": float(len(meters.values())),
        "on the loop: read all counts": min(measured["values"]),
        "in the thread: post one hit's counts": min(measured["flush"]),
        "in the thread: post and read the sums": min(measured["read"]),
        "in a thread: render the page": min(measured["render"]),
    }


async def _awaited(work: Callable[[], object]) -> float:
    start = time.process_time()
    await work()  # type: ignore[misc]
    return (time.process_time() - start) * 1e6


def main() -> None:
    """Measure, print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few rounds: does it run at all")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures here")
    arguments = parser.parse_args()
    rounds, times = (2, 200) if arguments.smoke else (100, 2_000)
    hot = asyncio.run(hot_path(rounds, times))
    nothing = hot["emit to nothing"]
    for name in list(hot):
        print(f"{name:45} {hot[name]:8.3f} us")
    ratio = (hot["emit to prometheus_client"] - nothing) / (hot["emit to meters"] - nothing)
    print(f"{'prometheus_client / meters':45} {ratio:8.2f}")
    rest = asyncio.run(beside(rounds, models=10 if arguments.smoke else 200))
    for name, value in rest.items():
        print(f"{name:45} {value:8.0f}{'' if name == 'series' else ' us'}")
    if arguments.json:
        machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
        results = {"hot_path_us": hot, "prometheus_client_ratio": ratio, "beside_us": rest}
        arguments.json.write_text(json.dumps({"machine": machine, "telemetry": results}, indent=2))


if __name__ == "__main__":
    main()
