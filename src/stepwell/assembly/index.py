"""Builds the index of the semantic layer: a worker's own, or one that a server searches."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepwell.assembly.extras import extra_for
from stepwell.assembly.part_watch import PartWatch
from stepwell.assembly.settings import Settings
from stepwell.core.clock import Clock
from stepwell.core.points import PointServer
from stepwell.core.ports import EventSink
from stepwell.core.vectors import Embedder
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.manifest import Identity
from stepwell.semantic.index.own import OwnIndex
from stepwell.semantic.index.served import ServedIndex, Truth
from stepwell.telemetry import catalogue
from stepwell.telemetry.gauges import Gauges

if TYPE_CHECKING:
    from stepwell.stores.postgres.points import PostgresPoints

PART = "semantic.index"
INDEX_DIRECTORY = "semantic"


async def open_index(
    settings: Settings,
    embedder: Embedder,
    directory: Path | None,
    store: Truth,
    *,
    clock: Clock,
    events: EventSink,
    gauges: Gauges,
) -> OwnIndex | ServedIndex:
    """Return the index that ``[semantic.index]`` describes; a server's, whether it is there or not.

    Args:
        settings: Checked.
        embedder: Whose vectors it holds.
        directory: Where an own index is kept.
        store: What it is an index of.
        clock: The time.
        events: Hears what happens.
        gauges: Shows how much there is, or whether the server is bypassed.

    Raises:
        ConfigError: A setting cannot be used, or the server cannot search.
    """
    server = await _open_server(settings, embedder, clock=clock, events=events)
    if server is not None:
        gauges.watch(catalogue.DEGRADED, lambda: float(bool(server.trouble)), PART)
        return ServedIndex(server, store, clock=clock, events=events)
    assert directory is not None  # noqa: S101  (an own index has one)
    index = VectorIndex(
        directory / INDEX_DIRECTORY / _folder_name(embedder.model_id),
        Identity(embedder.model_id, embedder.dimensions),
        bounds=Bounds(max_points=settings.semantic.max_points),
        clock=clock,
        events=events,
    )
    gauges.watch(catalogue.SEMANTIC_POINTS, lambda: index.contents().points)
    return OwnIndex(index)


class _Unstarted(PointServer, Protocol):
    async def start(self) -> None: ...


async def _open_server(
    settings: Settings, embedder: Embedder, *, clock: Clock, events: EventSink
) -> PointServer | None:
    """Return the server that searches, started; ``None`` if none does."""
    server = await _make_server(settings, embedder, clock=clock, events=events)
    if server is not None:
        try:
            await server.start()
        except BaseException:
            await server.aclose()
            raise
    return server


async def _make_server(
    settings: Settings, embedder: Embedder, *, clock: Clock, events: EventSink
) -> _Unstarted | None:
    kind, seconds = settings.semantic.index.kind, settings.semantic.index.timeout_seconds
    watch = PartWatch(PART, clock=clock, events=events)
    redis, postgres = settings.stores.redis, settings.stores.postgres
    if kind == "redis" and redis.url is not None:
        from stepwell.assembly.redis import open_redis_points  # noqa: PLC0415  (an extra)

        return await open_redis_points(
            redis, redis.url, embedder, search_seconds=seconds, clock=clock, on_change=watch.note
        )
    if kind == "postgres" and postgres.url is not None:
        return _maker_for_postgres()(
            postgres, postgres.url, embedder, search_seconds=seconds, on_change=watch.note
        )
    return None


def _maker_for_postgres() -> "Callable[..., PostgresPoints]":
    with extra_for("semantic.index.kind is 'postgres'", "postgres"):
        from stepwell.assembly.postgres import make_postgres_points  # noqa: PLC0415  (an extra)
    return make_postgres_points


def _folder_name(model_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@-]", "_", model_id)[:100]
