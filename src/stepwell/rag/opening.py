"""Opens everything that answers from documents, as the settings have it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from stepwell.assembly.documents import (
    Sink,
    make_document_embedder,
    open_embedding_cache,
    open_library,
)
from stepwell.assembly.settings import Class, Log, Settings
from stepwell.client.cache import Cache
from stepwell.core.clock import SystemClock
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.events import Event
from stepwell.core.names import LayerName
from stepwell.rag.flow import TOP, Rag, Sources
from stepwell.rag.questions import CachedQuestions
from stepwell.rag.template import Template

REQUEST_CLASS = "rag"

_CLASS = Class(layers=(LayerName.EXACT,), ttl_seconds=86_400.0, store_truncated=True)
"""Unless the settings have a class of that name. The passages are in the key: an answer goes when
one of them changes, so it may live long."""


@asynccontextmanager
async def open_rag(
    settings: Settings,
    data_dir: Path,
    collection: str,
    template: Template,
    *,
    top: int = TOP,
    events: Sink | None = None,
) -> AsyncIterator[Rag]:
    """Open the collection's library, the caches, and the way to the model, until the block ends.

    Nothing is loaded or started before it is needed: what the caches know needs neither the
    embedder nor the model. For one event loop.

    Args:
        settings: Checked. ``[upstreams]`` says who answers, ``[semantic]`` who embeds, ``[stores]``
            where everything is kept.
        data_dir: What is not on servers is here.
        collection: Its name.
        template: How a question becomes a request.
        top: Passages for a question.
        events: Hears what fails without failing a question; by default nobody does.

    Raises:
        ConfigError: A setting cannot be used, or something is not installed.
        StoreUnavailable: The data directory cannot be used.
    """
    clock, events = SystemClock(), events or _Silence()
    async with AsyncExitStack() as stack:
        library = await open_library(settings, data_dir, clock=clock, events=events)
        stack.push_async_callback(library.aclose)
        embedder = make_document_embedder(settings)
        stack.push_async_callback(embedder.aclose)  # After the cache, which may be asking it.
        vectors = await open_embedding_cache(settings, data_dir, clock=clock, events=events)
        stack.push_async_callback(vectors.aclose)
        cache = await stack.enter_async_context(Cache(_for_answers(settings), data_dir=data_dir))
        sources = Sources(library, collection, CachedQuestions(embedder, vectors), top)
        yield Rag(sources, cache, _in_class(template))


class _Silence:
    def emit(self, event: Event | EmbeddingEvent) -> None:
        """Say nothing."""


def _in_class(template: Template) -> Template:
    parameters = {**template.parameters, "metadata": {"stepwell_class": REQUEST_CLASS}}
    return replace(template, parameters=parameters)


def _for_answers(settings: Settings) -> Settings:
    """Return the settings of the cache of answers: a class of our own, and no embedder of its own.

    The question is looked for in other words nowhere: its passages decide.
    """
    return msgspec.structs.replace(
        settings,
        classes={REQUEST_CLASS: _CLASS, **settings.classes},
        semantic=msgspec.structs.replace(settings.semantic, embedder="off", endpoint=None),
        log=Log(target="off"),
    )
