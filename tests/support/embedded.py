"""The embedded engine for tests: one, or several at once as replicas of a model server.

Each takes about 0.4 GB and two seconds to start.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stepwell.core.events import Event
from stepwell.engines.embedded import EmbeddedEngine, EngineBounds
from stepwell.engines.http import HttpUpstream
from stepwell.engines.served_process import EngineAddress
from stepwell.engines.weights import WEIGHTS_PACKAGE

MISSING = [
    package
    for package in ("xllamacpp", WEIGHTS_PACKAGE)
    if importlib.util.find_spec(package) is None
]

needs_the_engine = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

SMALL = EngineBounds(slots=1, context_tokens=2_048, prompt_cache_mib=64)
"""Enough for tests. With one slot nobody has to say which."""


class NoEvents:
    """Hears nothing."""

    def emit(self, event: Event) -> None:
        """Take one event."""


@dataclass
class RunningEngine:
    """An engine that serves, and what it reported."""

    engine: EmbeddedEngine
    address: EngineAddress
    reports: list[str] = field(default_factory=list)

    def upstream(self, api_key: str | None = None) -> HttpUpstream:
        """Return a way to ask it. Close it."""
        return HttpUpstream(
            "embedded",
            self.address.base_url,
            identity=self.address.identity,
            api_key=api_key or self.address.api_key,
            events=NoEvents(),
        )


@contextmanager
def running_engine(
    data_dir: Path, bounds: EngineBounds = SMALL, *, saved_in: Path | None = None
) -> Iterator[RunningEngine]:
    """Run an engine. Blocks for its start and its end."""
    reports: list[str] = []
    engine = EmbeddedEngine(
        data_dir=data_dir, report=reports.append, bounds=bounds, saved_in=saved_in
    )
    try:
        yield RunningEngine(engine, engine.start(), reports)
    finally:
        engine.stop()


@contextmanager
def running_replicas(place: Path, count: int) -> Iterator[list[RunningEngine]]:
    """Run several, each with a key and a data directory of its own."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(running_engine(place / f"replica-{number}"))
            for number in range(count)
        ]
