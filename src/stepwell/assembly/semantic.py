"""Builds the semantic layer: embedder, index, acceptance, and what keeps them in step."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stepwell.assembly.deciding import calibration_of, make_acceptance
from stepwell.assembly.environment import secret_from
from stepwell.assembly.index import PART, open_index
from stepwell.assembly.instruments import Instruments
from stepwell.assembly.judging import make_judge, make_opinions
from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_semantic import EmbeddingEndpoint, Semantic
from stepwell.core.clock import Clock
from stepwell.core.judging import AnswerJudge
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Comparer, Embedder
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.cached_embedder import CachedEmbedder
from stepwell.embedding.supervisor import EmbedderAddress
from stepwell.semantic.acceptance.calibration import Calibration, packaged
from stepwell.semantic.comparison import LEAST_SHARE, Comparison
from stepwell.semantic.denials import Denials
from stepwell.semantic.evidence import Evidence
from stepwell.semantic.follower import FollowedStore, SemanticFollower
from stepwell.semantic.index.own import OwnIndex
from stepwell.semantic.index.served import SETTLE_SECONDS, ServedIndex
from stepwell.semantic.layer import SemanticLayer, Tolerances


@dataclass(frozen=True, slots=True)
class SemanticRooms:
    """The semantic layer of one process, put together."""

    embedder: Embedder
    index: OwnIndex | ServedIndex
    layer: SemanticLayer
    denials: Denials
    judge: AnswerJudge
    follower: SemanticFollower
    scratch: Path | None
    """Where an own index is, if nothing is to be kept."""

    def troubles(self) -> Mapping[str, str]:
        """Return the parts that are bypassed just now, and why."""
        trouble = self.index.trouble if isinstance(self.index, ServedIndex) else ""
        return {PART: trouble} if trouble else {}

    async def aclose(self) -> None:
        """Write down what would have to be embedded again, and release everything."""
        await self.follower.aclose()
        await self.layer.aclose()
        await self.index.aclose()
        await self.embedder.aclose()
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


async def build_semantic(
    settings: Settings,
    address: EmbedderAddress | None,
    data_dir: Path | None,
    store: FollowedStore,
    vectors: EmbeddingCache | None,
    instruments: Instruments,
) -> SemanticRooms:
    """Return the semantic layer that ``settings`` describe, on the running event loop.

    Args:
        settings: Checked.
        address: Where the host's embedder is; ``None`` with an embedding endpoint.
        data_dir: Where the index is kept; ``None``: nowhere.
        store: What it follows.
        vectors: Where an endpoint's vectors are kept; ``None``: nowhere.
        instruments: Show what happens.

    Raises:
        ConfigError: A setting cannot be used.
    """
    table = settings.semantic
    clock, events, gauges = instruments.clock, instruments.events, instruments.gauges
    embedder = _kept(make_embedder(table, address), table, vectors)
    is_own = table.index.kind == "own"
    scratch = Path(tempfile.mkdtemp(prefix="stepwell-index-")) if is_own and not data_dir else None
    index = await open_index(
        settings, embedder, scratch or data_dir, store, clock=clock, events=events, gauges=gauges
    )
    comparer = comparer_of(table, embedder)
    calibration = calibration_of(table, embedder.model_id, compares=comparer is not None)
    denials = Denials()
    evidence = Evidence(calibration.prior)
    layer = SemanticLayer(
        embedder,
        index,
        make_acceptance(table, calibration, evidence),
        denials,
        clock=clock,
        events=events,
        tolerances=Tolerances(table.temperature_tolerance, calibration.reuse_similarity),
        comparison=make_comparison(
            comparer, calibration, budget_seconds=table.timeout_seconds, clock=clock, events=events
        ),
        opinions=make_opinions(table, clock=clock, events=events),
    )
    follower = SemanticFollower(
        layer,
        index,
        (denials, evidence),
        store,
        clock=clock,
        events=events,
        settle_seconds=0.0 if is_own else SETTLE_SECONDS,
    )
    judge = make_judge(table.judge, embedder, calibration_of(table, embedder.model_id))
    return SemanticRooms(embedder, index, layer, denials, judge, follower, scratch)


def make_embedder(table: Semantic, address: EmbedderAddress | None) -> Embedder:
    """Return the embedder of a process: the host's own, or an endpoint's.

    Raises:
        ConfigError: A setting cannot be used.
    """
    if address is None:
        return _endpoint_embedder(table)
    from stepwell.embedding.remote import RemoteEmbedder  # noqa: PLC0415

    share = 1.0 if table.comparison == "off" else 1.0 - LEAST_SHARE
    budget_seconds = table.timeout_seconds * share
    return RemoteEmbedder(address.socket, address.facts, budget_seconds=budget_seconds)


def _kept(embedder: Embedder, table: Semantic, vectors: EmbeddingCache | None) -> Embedder:
    """Return ``embedder``; an endpoint's with its vectors kept, if they are to be."""
    if vectors is None or table.endpoint is None or not table.endpoint.cache:
        return embedder
    return CachedEmbedder(embedder, vectors, budget_seconds=table.timeout_seconds)


def _endpoint_embedder(table: Semantic) -> Embedder:
    from stepwell.embedding.endpoint import Endpoint, EndpointEmbedder  # noqa: PLC0415  (aiohttp)

    given = table.endpoint or EmbeddingEndpoint(base_url="", model="", dimensions=1)
    key = None
    if given.api_key_env is not None:
        key = secret_from(given.api_key_env, setting="semantic.endpoint.api_key_env")
    endpoint = Endpoint(
        given.base_url.rstrip("/"),
        given.model,
        given.dimensions,
        given.window_tokens,
        api_key=key,
        asks_dimensions=given.ask_for_dimensions,
        prefix=given.prefix,
        revision=given.revision,
    )
    return EndpointEmbedder(endpoint, budget_seconds=table.timeout_seconds)


def comparer_of(table: Semantic, embedder: Embedder) -> Comparer | None:
    """Return what compares the best candidate's text, if the settings want it and one can."""
    if table.comparison == "off" or not isinstance(embedder, Comparer):
        return None
    # All bundled embedders can be asked; only the models that levels were measured for compare.
    measured = packaged(embedder.model_id, compares=True)
    return None if measured is None or measured.compared is None else embedder


def make_comparison(
    comparer: Comparer | None,
    calibration: Calibration,
    *,
    budget_seconds: float | None,
    clock: Clock,
    events: EventSink,
) -> Comparison | None:
    """Return what looks closer at a match; ``None`` without a ``comparer``."""
    if comparer is None or calibration.compared is None:
        return None
    return Comparison(
        comparer, calibration.compared, budget_seconds=budget_seconds, clock=clock, events=events
    )
