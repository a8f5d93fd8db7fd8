"""Builds the house: from settings to the objects that answer requests."""

import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.assembly.auditing import Auditing, build_auditing
from stepwell.assembly.circles import OpenCircle, open_flights
from stepwell.assembly.disk_watch import DiskWatch
from stepwell.assembly.instruments import Instruments
from stepwell.assembly.rules import prices_of, request_classes, routes
from stepwell.assembly.settings import Settings
from stepwell.assembly.stores import make_memory, open_store
from stepwell.core.clock import Clock, SystemClock
from stepwell.core.names import EVERYONE, Tier
from stepwell.core.ports import (
    EventSink,
    Paraphrases,
    Store,
    SupportsTrouble,
)
from stepwell.engines.served_process import EngineAddress
from stepwell.exact.layer import ExactLayer
from stepwell.pipeline.behind import Behind
from stepwell.pipeline.calls import Calls
from stepwell.pipeline.feedback import Feedback
from stepwell.pipeline.flights import Flights
from stepwell.pipeline.groups import Groups
from stepwell.pipeline.intake import Intake
from stepwell.pipeline.lookups import Lookups
from stepwell.pipeline.renderings import Renderings
from stepwell.pipeline.runner import Runner
from stepwell.pipeline.targets import Targets
from stepwell.pipeline.warming import Warming, WarmingRules
from stepwell.prefix.steering.hints import NearHints
from stepwell.stores.disk.store import DiskStore
from stepwell.stores.memory import MemoryStore
from stepwell.telemetry import catalogue
from stepwell.telemetry.fanout import Fanout
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.ledger_writer import LedgerWriter
from stepwell.telemetry.log import RequestLog
from stepwell.telemetry.meters import Meters

if TYPE_CHECKING:
    from stepwell.assembly.embedding_rooms import EmbeddingRooms
    from stepwell.assembly.semantic import SemanticRooms
    from stepwell.embedding.supervisor import EmbedderAddress

LEDGER_FILE = "ledger.sqlite"
RENDERINGS_SHARE = 4
"""A quarter of the memory tier's bytes, on top, for answers in their other form."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All a worker process needs to build its house; can be sent to one."""

    settings: Settings
    data_dir: Path | None
    """``None``: nothing is kept beyond the process, and nothing shared."""
    secret: bytes
    """What namespaces are derived with."""
    engines: Mapping[str, EngineAddress] = field(default_factory=dict)
    """Those this package runs, by the name of the upstream."""
    embedder: "EmbedderAddress | None" = None
    """The host's embedder, if it runs."""
    boot: str = field(default_factory=partial(secrets.token_hex, 8))
    """The same for all workers of one run."""
    version: str = field(default_factory=partial(version, "stepwell"))


@dataclass(frozen=True, slots=True)
class House:
    """The objects of one process, put together. Made by `build_house`; close it."""

    plan: Plan
    clock: Clock
    events: EventSink
    secret: bytes
    targets: Targets
    intake: Intake
    exact: ExactLayer
    flights: Flights
    runner: Runner
    embedding: "EmbeddingRooms | None"
    semantic: "SemanticRooms | None"
    feedback: Feedback | None
    circles: tuple[OpenCircle, ...]
    groups: Groups
    meters: Meters
    gauges: Gauges
    ledger: LedgerWriter | None
    store: Store
    disk_watch: DiskWatch | None
    log: RequestLog | None

    def start_posting(self) -> None:
        """Post to the ledger once a second from now on, if there is one, not only when closing.

        For whoever stays. A command that only looks, and counts nothing, leaves no trace in it.
        """
        if self.ledger is not None:
            self.ledger.start()

    def troubles(self) -> Mapping[str, str]:
        """Return the parts that are bypassed just now, and why."""
        store = self.store
        trouble = store.trouble if isinstance(store, SupportsTrouble) else ""
        troubles = {str(store.tier): trouble} if trouble else {}
        if self.semantic is not None:
            troubles.update(self.semantic.troubles())
        if self.embedding is not None:
            troubles.update(self.embedding.troubles())
        return troubles

    async def aclose(self) -> None:
        """Finish what is under way and release everything, stores last."""
        await self.runner.aclose()
        await self.groups.aclose()
        if self.semantic is not None:
            await self.semantic.aclose()
        if self.embedding is not None:
            await self.embedding.aclose()
        for circle in self.circles:
            await circle.aclose()
        for target in self.targets:
            await target.upstream.aclose()
        if self.disk_watch is not None:
            await self.disk_watch.aclose()
        await self.store.aclose()
        if self.ledger is not None:
            await self.ledger.aclose()
        if self.log is not None:
            await self.log.aclose()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What model servers are made in."""

    clock: Clock
    events: EventSink
    gauges: Gauges
    hints: NearHints
    """What the semantic layer says of questions that go on to them."""
    said_by_operator: Callable[[str], str | None]
    """Returns the value of a named source that is everybody's, as far as has been heard."""
    hear: Callable[[], Awaitable[object]]
    """Hears what others have changed."""


MakeTargets = Callable[[Plan, Surroundings], Targets]
"""Makes the model servers; which kind is the caller's business."""


OpenEmbedding = Callable[[Plan, Instruments], Awaitable["EmbeddingRooms"]]
"""Opens what keeps vectors."""


async def build_house(
    plan: Plan, make_targets: MakeTargets, open_embedding: OpenEmbedding | None = None
) -> House:
    """Return the house that ``plan`` describes, on the running event loop.

    Args:
        plan: Describes it.
        make_targets: Makes the model servers.
        open_embedding: Opens what keeps vectors; ``None``: nothing does.

    Raises:
        ConfigError: A setting cannot be used.
        StoreUnavailable: The data directory cannot be used.
    """
    settings, shown = plan.settings, _instruments(plan)
    clock, events, gauges = shown.clock, shown.events, shown.gauges
    memory = make_memory(settings, clock, events)
    # Before the store is opened: who is busy for so long hears nothing of what changes there.
    build_semantic = _semantic_builder(plan)
    store = await open_store(settings, plan.data_dir, memory, clock, events)
    embedding = None if open_embedding is None else await open_embedding(plan, shown)
    vectors = None if embedding is None else embedding.cache
    semantic = await build_semantic(store, vectors, shown)
    paraphrases = None if semantic is None else semantic.layer
    followers = () if semantic is None else (semantic.follower,)
    exact = ExactLayer(memory, store, store, events=events, followers=followers)
    await exact.load_sources()

    groups = Groups(exact, events=events)
    calls = Calls(exact, clock=clock, events=events, paraphrases=paraphrases, groups=groups)
    flights, circles = await open_flights(
        settings, plan.data_dir, store, exact, calls, clock=clock, events=events
    )
    _watch(gauges, memory, store)
    if semantic is not None:
        semantic.follower.start(exact)
    around = _surroundings(exact, shown)
    targets = make_targets(plan, around)
    auditing = build_auditing(settings, semantic, exact, store, flights, targets, shown)
    return House(
        plan=plan,
        clock=clock,
        events=events,
        secret=plan.secret,
        targets=targets,
        intake=_intake(settings, targets, phrased=semantic is not None),
        exact=exact,
        flights=flights,
        runner=_runner(settings, exact, flights, paraphrases, auditing, calls, around),
        embedding=embedding,
        semantic=semantic,
        feedback=None if auditing is None else auditing.feedback,
        circles=circles,
        groups=groups,
        meters=shown.meters,
        gauges=gauges,
        ledger=_ledger(plan, shown),
        store=store,
        disk_watch=DiskWatch(store, gauges) if isinstance(store, DiskStore) else None,
        log=shown.log,
    )


def _instruments(plan: Plan) -> Instruments:
    meters = Meters(prices_of(plan.settings))
    log = _log(plan.settings, meters)
    events = meters if log is None else Fanout(meters, log)
    return Instruments(meters, events, Gauges(plan.version), SystemClock(), log)


def _surroundings(exact: ExactLayer, shown: Instruments) -> Surroundings:
    said_by_operator = partial(exact.source_value, EVERYONE)
    return Surroundings(
        shown.clock,
        shown.events,
        shown.gauges,
        NearHints(),
        said_by_operator,
        hear=exact.catch_up,
    )


def _watch(gauges: Gauges, memory: MemoryStore, store: Store) -> None:
    gauges.watch(catalogue.ENTRIES, lambda: len(memory), Tier.MEMORY)
    gauges.watch(catalogue.BYTES, lambda: memory.size_bytes, Tier.MEMORY)
    if isinstance(store, SupportsTrouble):
        gauges.watch(catalogue.DEGRADED, lambda: float(bool(store.trouble)), store.tier)


def _intake(settings: Settings, targets: Targets, *, phrased: bool) -> Intake:
    classes = request_classes(settings)
    return Intake(
        targets,
        classes,
        routes(settings, classes),
        extra_headers=settings.exact.extra_headers,
        rewrites=settings.prefix.rewrite,
        phrased=phrased,
    )


def _runner(
    settings: Settings,
    exact: ExactLayer,
    flights: Flights,
    paraphrases: Paraphrases | None,
    auditing: Auditing | None,
    calls: Calls,
    around: Surroundings,
) -> Runner:
    renderings = Renderings(max_bytes=settings.stores.memory.max_bytes // RENDERINGS_SHARE)
    lookups = Lookups(
        exact,
        renderings,
        clock=around.clock,
        paraphrases=paraphrases,
        hints=around.hints,
        respondents=None if auditing is None else auditing.advisers,
    )
    return Runner(
        exact,
        lookups,
        flights,
        renderings,
        clock=around.clock,
        events=around.events,
        max_wait_seconds=settings.single_flight.max_wait_seconds,
        behind=_behind(settings, auditing, calls, around),
    )


def _behind(
    settings: Settings, auditing: Auditing | None, calls: Calls, around: Surroundings
) -> Behind:
    rules = {
        name: WarmingRules(table.prefix.warm_tokens_per_minute)
        for name, table in settings.upstreams.items()
        if table.prefix.warm_on_hit
    }
    return Behind(
        audits=None if auditing is None else auditing.audits,
        warming=Warming(rules, in_flight=calls.in_flight, clock=around.clock, events=around.events)
        if rules
        else None,
    )


def _semantic_builder(plan: Plan) -> "Callable[..., Awaitable[SemanticRooms | None]]":
    """Load what the semantic layer needs, if there is to be one: for a second or two."""
    if plan.embedder is None and plan.settings.semantic.embedder != "endpoint":
        return _build_none
    from stepwell.assembly.semantic import build_semantic  # noqa: PLC0415  (an extra)
    from stepwell.semantic.valve import valve  # noqa: PLC0415

    valve.load()
    return partial(build_semantic, plan.settings, plan.embedder, plan.data_dir)


async def _build_none(*_parts: object) -> None:
    """Build no semantic layer."""


def _ledger(plan: Plan, shown: Instruments) -> LedgerWriter | None:
    if plan.data_dir is None:
        return None
    return LedgerWriter(
        plan.data_dir / LEDGER_FILE,
        boot=plan.boot,
        meters=shown.meters,
        gauges=shown.gauges,
        events=shown.events,
    )


def _log(settings: Settings, events: EventSink) -> RequestLog | None:
    match settings.log.target:
        case "off":
            return None
        case "stdout":
            return RequestLog(sys.stdout.fileno(), events=events)
        case "stderr":
            return RequestLog(sys.stderr.fileno(), events=events)
