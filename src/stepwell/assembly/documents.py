"""Opens what documents need: a library, an embedder of chunks and questions, a cache of vectors.

Needs the extra ``embedding``.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from stepwell.assembly.embedder import recipe_of, threads_of, wants_semantic
from stepwell.assembly.embedding import open_places, patient, places_of
from stepwell.assembly.environment import cache_dir
from stepwell.assembly.extras import extra_for
from stepwell.assembly.part_watch import PartWatch
from stepwell.assembly.settings import Settings
from stepwell.core.clock import Clock
from stepwell.core.documents import Library
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.errors import ConfigError
from stepwell.core.events import Event
from stepwell.core.vectors import Embedder
from stepwell.embedding.cache.cache import Bounds, EmbeddingCache
from stepwell.stores.disk.documents.store import DiskLibrary

if TYPE_CHECKING:
    from stepwell.embedding.in_process import InProcessEmbedder
    from stepwell.embedding.recipes import Recipe
    from stepwell.stores.postgres.documents.store import PostgresLibrary

PART = "documents.postgres"


class Sink(Protocol):
    """Where events go, those of vectors too. Must not raise and must not block."""

    def emit(self, event: Event | EmbeddingEvent) -> None:
        """Take one event."""
        ...


PATIENCE_SECONDS = 60.0
"""What an endpoint may take for a call: nobody waits for an answer while documents are embedded."""


async def open_library(
    settings: Settings, data_dir: Path | None, *, clock: Clock, events: Sink
) -> Library:
    """Open the library of ``[stores.postgres]``, if that has a URL, else of the data directory.

    PostgreSQL may be away: then every call fails until it is there.

    Raises:
        ConfigError: A setting cannot be used, or there is neither.
        StoreUnavailable: The directory cannot be used.
        StoreFull: It has no space.
    """
    table = settings.stores.postgres
    if table.url is not None:
        with extra_for("stores.postgres.url is set", "postgres"):
            from stepwell.assembly.postgres import make_postgres_library  # noqa: PLC0415
        watch = PartWatch(PART, clock=clock, events=events)
        return await _started(make_postgres_library(table, table.url, on_change=watch.note))
    if data_dir is None:
        raise ConfigError("there is no place for documents: name a data directory, or PostgreSQL.")
    return await DiskLibrary.open(data_dir, clock=clock, events=events)


async def _started(library: "PostgresLibrary") -> "PostgresLibrary":
    try:
        await library.start()
    except BaseException:
        await library.aclose()
        raise
    return library


async def open_embedding_cache(
    settings: Settings,
    data_dir: Path | None,
    *,
    clock: Clock,
    events: Sink,
    patience_seconds: float | None = None,
) -> EmbeddingCache:
    """Open the cache of vectors that ``[embedding]`` and ``[stores]`` mean.

    Args:
        settings: Checked.
        data_dir: Where vectors are, unless in PostgreSQL.
        clock: The time.
        events: Hears what fails.
        patience_seconds: How long a store may take over a call; by default, as for a gateway.

    Raises:
        ConfigError: A setting cannot be used.
        StoreUnavailable: The data directory cannot be used.
        StoreFull: It has no space.
    """
    where = places_of(settings, data_dir)
    if patience_seconds is not None:
        where = patient(where, patience_seconds)
    places = await open_places(where, clock=clock, events=events)
    table = settings.embedding
    bounds = Bounds(
        memory_bytes=table.memory_bytes,
        memory_seconds=table.memory_seconds,
        max_versions=table.max_versions,
        canary_seconds=table.canary_seconds or None,
        keep_texts=table.keep_texts,
    )
    return EmbeddingCache(events, stores=places.stores, bounds=bounds, clock=clock)


def make_document_embedder(settings: Settings) -> Embedder:
    """Return the embedder of chunks and of questions about them, in this process.

    A bundled one reads longer texts here than questions are: its vectors are others than those of
    the semantic layer. It is loaded, in a thread, when something must be embedded, which takes half
    a second, and five seconds the first time. For an endpoint, call it on the event loop that uses
    it.

    Raises:
        ConfigError: Its packages are not installed.
    """
    table = settings.semantic
    if table.embedder in {"auto", "off"}:
        # That documents are to be embedded was said by who calls.
        table = msgspec.structs.replace(table, embedder="multilingual")
    settings = msgspec.structs.replace(settings, semantic=table)
    wants_semantic(settings)
    recipe = recipe_of(settings)
    if recipe is None:
        from stepwell.assembly.semantic import make_embedder  # noqa: PLC0415  (an extra)

        return make_embedder(msgspec.structs.replace(table, timeout_seconds=PATIENCE_SECONDS), None)
    from stepwell.embedding.late import LateEmbedder  # noqa: PLC0415  (an extra)
    from stepwell.embedding.recipes import facts, for_documents  # noqa: PLC0415

    recipe = for_documents(recipe)
    return LateEmbedder(facts(recipe), partial(_load, recipe, threads_of(table)))


def _load(recipe: "Recipe", threads: int) -> "InProcessEmbedder":
    from stepwell.embedding.in_process import InProcessEmbedder  # noqa: PLC0415  (an extra)
    from stepwell.embedding.opening import open_encoder  # noqa: PLC0415
    from stepwell.embedding.recipes import facts  # noqa: PLC0415

    models = cache_dir() / "models"
    try:
        encoder = open_encoder(recipe, models)
    except OSError as error:
        raise ConfigError(f"{models} cannot be used: {error.strerror}.") from error
    return InProcessEmbedder(encoder, facts(recipe), threads=threads)
