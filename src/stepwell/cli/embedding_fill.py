"""What ``stepwell embeddings fill`` does. Needs what the extras for vectors and HTTP bring."""

import sys
from contextlib import aclosing
from dataclasses import dataclass, field

from stepwell.assembly.embedding import OpenedPlaces
from stepwell.core.embedding import FullStore, VectorKind
from stepwell.core.embedding_events import EmbeddingDrifted, EmbeddingEvent
from stepwell.core.errors import ConfigError
from stepwell.core.events import Degraded
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.filling import Filled
from stepwell.embedding.cache.filling import fill as fill_version
from stepwell.embedding.endpoint_provider import EmbeddingServer, EndpointProvider


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be filled, and by whom."""

    old: str
    new: str
    base_url: str | None
    """``None``: the new version's provider, if that is a URL."""
    api_key: str | None = field(repr=False)
    per_minute: float | None
    """Texts, at most."""


async def fill(places: OpenedPlaces, full: FullStore, asked: Asked) -> Filled:
    """Fill, and say how far it has come; closes the places.

    Raises:
        ConfigError: It cannot be asked so.
        EmbeddingError: The server failed; what came is kept.
        StoreError: The full store failed.
    """
    versions = {figures.kind.version: figures for figures in await full.versions()}
    kind = versions[asked.new].kind
    texts = versions[asked.old].with_text - await full.covered(asked.old, asked.new)
    if asked.per_minute is not None and not asked.per_minute > 0:
        raise ConfigError(f"--per-minute is {asked.per_minute}; allowed: more than 0.")
    filled = Filled(0, 0)
    provider = EndpointProvider(_server(kind, asked))
    async with aclosing(provider), aclosing(EmbeddingCache(_Told(), stores=places.stores)) as cache:
        async for filled in fill_version(
            *(cache, full, asked.old, kind, provider), texts_per_minute=asked.per_minute
        ):
            done = filled.texts + filled.failed
            print(f"{done:,} of {texts:,} texts, {filled.failed:,} failed", file=sys.stderr)
    return filled


def _server(kind: VectorKind, asked: Asked) -> EmbeddingServer:
    if kind.parameters not in {"", "{}"}:
        raise ConfigError(
            f"{asked.new} is made with parameters ({kind.parameters}), which `fill` does not send."
        )
    base_url = asked.base_url
    if base_url is None:
        if not kind.provider.startswith(("http://", "https://")):
            raise ConfigError(f"--base-url is missing: the server that computes {asked.new}.")
        base_url = kind.provider
    return EmbeddingServer(base_url, kind.model, asked.api_key, kind.dimensions)


class _Told:
    """Says what fails."""

    def emit(self, event: EmbeddingEvent) -> None:
        """Print ``event``, if it is of that kind."""
        match event:
            case Degraded(component, error):
                print(f"stepwell: {component}: {error}", file=sys.stderr)
            case EmbeddingDrifted(model):
                print(f"stepwell: the server has changed {model}", file=sys.stderr)
            case _:
                pass
