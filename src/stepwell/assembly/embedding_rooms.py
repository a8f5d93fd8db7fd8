"""Builds what keeps vectors in a gateway: the cache, what watches it, what asks it."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from stepwell.assembly.embedding import OpenedPlaces, open_places, places_of
from stepwell.assembly.house import House, Plan
from stepwell.assembly.instruments import Instruments
from stepwell.assembly.settings import Settings
from stepwell.assembly.settings_embedding import EmbeddingModel
from stepwell.core.embedding import FullStore
from stepwell.core.errors import StoreError
from stepwell.embedding.cache.cache import Bounds, EmbeddingCache
from stepwell.embedding.cache.pace import Limits
from stepwell.gateway.parts import EmbeddingParts
from stepwell.pipeline.embedding_asks import EmbeddingIntake
from stepwell.pipeline.embedding_deletion import EmbeddingEraser
from stepwell.pipeline.embedding_provider import Company
from stepwell.pipeline.embedding_repeats import EmbeddingRepeats
from stepwell.pipeline.embedding_rules import EmbeddingRules, ModelRule
from stepwell.pipeline.embeddings import EmbeddingDesk
from stepwell.pipeline.intake import KEYED_HEADERS
from stepwell.telemetry import catalogue
from stepwell.telemetry.embedding_counts import EmbeddingCounts
from stepwell.telemetry.gauges import Gauges

WATCH_SECONDS = 60.0
"""How often the full store is asked how much it holds."""

REPEATS_SHARE = 4
"""A quarter of the bytes in memory, on top, for requests and their replies as they were written."""

_MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class EmbeddingRooms:
    """What keeps vectors in one process, put together."""

    cache: EmbeddingCache
    places: OpenedPlaces
    watch: "FullStoreWatch | None"

    def troubles(self) -> Mapping[str, str]:
        """Return the parts that are bypassed just now, and why."""
        return self.places.troubles()

    async def aclose(self) -> None:
        """Write what is pending, close the stores."""
        if self.watch is not None:
            await self.watch.aclose()
        await self.cache.aclose()


async def open_embedding(plan: Plan, instruments: Instruments) -> EmbeddingRooms:
    """Return the cache over the stores that the settings mean, counted and watched.

    Args:
        plan: Of a process.
        instruments: Show what happens.

    Raises:
        ConfigError: A setting cannot be used.
        StoreUnavailable: The data directory cannot be used.
    """
    settings, gauges, clock = plan.settings, instruments.gauges, instruments.clock
    table = settings.embedding
    places = await open_places(
        places_of(settings, plan.data_dir), clock=clock, events=instruments.events
    )
    bounds = Bounds(
        memory_bytes=table.memory_bytes,
        memory_seconds=table.memory_seconds,
        max_versions=table.max_versions,
        canary_seconds=table.canary_seconds or None,
        keep_texts=table.keep_texts,
    )
    counts = EmbeddingCounts(instruments.meters, instruments.events)
    cache = EmbeddingCache(counts, stores=places.stores, bounds=bounds, clock=clock)
    gauges.watch(catalogue.EMBEDDING_VECTORS, lambda: cache.figures.memory_entries, _MEMORY)
    gauges.watch(catalogue.EMBEDDING_BYTES, lambda: cache.figures.memory_bytes, _MEMORY)
    gauges.watch(catalogue.EMBEDDING_PENDING, lambda: cache.figures.pending_writes)
    gauges.watch(catalogue.EMBEDDING_DRIFTED, lambda: len(cache.figures.drifted))
    full = places.full
    watch = None if full is None else FullStoreWatch(full, gauges)
    return EmbeddingRooms(cache, places, watch)


def build_parts(house: House, rooms: EmbeddingRooms) -> EmbeddingParts:
    """Return what answers requests for vectors, and what deletes them."""
    settings = house.plan.settings
    intake = EmbeddingIntake(
        house.targets,
        rules_of(settings),
        Company(house.clock, house.events, house.groups),
        keyed_headers=KEYED_HEADERS,
        extra_headers=settings.exact.extra_headers,
    )
    desk = EmbeddingDesk(rooms.cache, intake, house.groups, clock=house.clock)
    repeats = EmbeddingRepeats(
        desk,
        clock=house.clock,
        events=house.events,
        max_bytes=settings.embedding.memory_bytes // REPEATS_SHARE,
    )
    return EmbeddingParts(desk, EmbeddingEraser(rooms.cache, rooms.places.full), repeats)


def rules_of(settings: Settings) -> EmbeddingRules:
    """Return what the settings say of models."""
    table = settings.embedding
    return EmbeddingRules(
        precision=table.precision,
        is_shared=table.share or settings.auth.mode == "shared",
        max_inputs=table.max_inputs,
        models=tuple(_rule(model, settings) for model in table.models),
        otherwise=_rule(EmbeddingModel(model="*"), settings),
    )


def _rule(table: EmbeddingModel, settings: Settings) -> ModelRule:
    upstreams = settings.upstreams
    asked = upstreams.values() if table.upstream is None else (upstreams[table.upstream],)
    limits = Limits(
        max_texts=table.max_texts,
        max_bytes=table.max_call_bytes,
        max_calls=table.max_calls,
        requests_per_minute=table.requests_per_minute,
        tokens_per_minute=table.tokens_per_minute,
        # The caller hears at once what the server says, and knows better whether to ask again.
        max_retries=0,
        deadline_seconds=_HOP_SECONDS + max(one.first_byte_timeout_seconds for one in asked),
    )
    return ModelRule(
        table.model,
        table.upstream,
        table.revision,
        table.normalization,
        table.prefix,
        limits,
    )


_HOP_SECONDS = 30.0
"""On top of what an upstream may take until its reply begins."""


class FullStoreWatch:
    """Keeps the full store's gauges up to date. One event loop."""

    def __init__(self, full: FullStore, gauges: Gauges) -> None:
        """Watch ``full`` from now on; every worker sees the same store."""
        self._full = full
        self._vectors = self._bytes = 0
        tier = full.tier
        gauges.watch(catalogue.EMBEDDING_VECTORS, lambda: self._vectors, tier, shared=True)
        gauges.watch(catalogue.EMBEDDING_BYTES, lambda: self._bytes, tier, shared=True)
        self._looking = asyncio.create_task(self._look_for_ever())

    async def aclose(self) -> None:
        """Stop watching."""
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    async def _look_for_ever(self) -> None:
        while True:
            with suppress(StoreError):  # The gauges keep what was seen last.
                versions = await self._full.versions()
                self._vectors = sum(version.vectors for version in versions)
                self._bytes = sum(version.bytes for version in versions)
            await asyncio.sleep(WATCH_SECONDS)
