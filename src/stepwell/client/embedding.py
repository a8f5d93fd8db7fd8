"""The embedding cache as an object in a program."""

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stepwell.assembly.extras import extra_for
from stepwell.client.portal import Portal
from stepwell.core.clock import SystemClock
from stepwell.core.embedding import EmbedTexts, Precision, VectorKind
from stepwell.core.embedding_events import EmbeddingEvent
from stepwell.core.errors import ConfigError
from stepwell.embedding.cache.pace import Limits
from stepwell.telemetry.fanout import Fanout

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stepwell.embedding.cache.cache import Batch
    from stepwell.embedding.cache.cache import EmbeddingCache as Core
    from stepwell.embedding.cache.provider import Provider

_PRECISIONS = ("f32", "f16", "i8")


class _Unheard:
    """Where nobody listens: a library says what it did by what it returns."""

    def emit(self, event: EmbeddingEvent) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """What stands while the cache is entered."""

    core: "Core"
    provider: "Provider"
    stack: AsyncExitStack


class EmbeddingCache:
    """Vectors of texts, each computed once. Without a gateway.

    ::

        async with stepwell.EmbeddingCache(
            base_url="http://127.0.0.1:8000/v1", model="bge-m3", data_dir="vectors"
        ) as cache:
            vectors = await cache.embed(["How do I reset my password?", "Opening hours"])

    Async; safe for many tasks on one event loop, not across threads. For a synchronous program, see
    `blocking`. Needs numpy.
    """

    def __init__(  # noqa: PLR0913  (one keyword per thing that may be said)
        self,
        provider: EmbedTexts | None = None,
        *,
        base_url: str | None = None,
        model: str,
        api_key: str | None = None,
        revision: str = "",
        dimensions: int | None = None,
        prefix: str = "",
        precision: Precision = "f32",
        data_dir: Path | str | None = None,
        redis: str | None = None,
        postgres: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Describe the cache; nothing happens before it is entered.

        Args:
            provider: An async function that embeds texts; or ``base_url``.
            base_url: Of a server with ``POST /v1/embeddings``, ending in ``/v1``.
            model: As the server calls it; with a function, a name for what it does.
            api_key: For the server.
            revision: To be changed when the model changes under its name.
            dimensions: Width that the server is asked for; with a function, that it has.
            prefix: Put before every text, if the model was trained so.
            precision: How numbers are kept, and so given out: ``f32`` as they come, ``f16`` in half
                the room, ``i8`` in a quarter.
            data_dir: Where vectors are kept, shared with other processes. Without it, and without
                PostgreSQL, they stay in memory.
            redis: URL of a Redis or Valkey that machines share, in front of the others.
            postgres: URL of a PostgreSQL that keeps all vectors, in place of ``data_dir``.
            limits: Of the calls to who embeds: their size, how many at a time and in a minute, and
                how often one that fails is made again.

        Raises:
            ConfigError: Something cannot be used.
        """
        if (provider is None) == (base_url is None):
            raise ConfigError(
                "Say who embeds: a function as provider, or base_url; one of the two."
            )
        if precision not in _PRECISIONS:
            raise ConfigError(f"precision is {precision!r}; allowed: {', '.join(_PRECISIONS)}.")
        if not (isinstance(model, str) and model):
            raise ConfigError(f"model is {model!r}; allowed: the name of an embedding model.")
        self._provider = provider
        self._base_url = None if base_url is None else base_url.rstrip("/")
        self._api_key = api_key
        self._kind = VectorKind(
            self._base_url or "function",
            model,
            revision=revision,
            dimensions=dimensions,
            prefix=prefix,
            precision=precision,
        )
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._redis = redis
        self._postgres = postgres
        self._limits = limits
        self._opened: _Opened | None = None

    @property
    def kind(self) -> VectorKind:
        """What its vectors are."""
        return self._kind

    async def __aenter__(self) -> Self:
        """Open the stores.

        Raises:
            ConfigError: An extra is not installed, or a URL cannot be used.
            StoreUnavailable: The data directory cannot be used.
        """
        with extra_for("stepwell.EmbeddingCache is used", "embedding"):
            from stepwell.assembly.embedding import Places, open_places  # noqa: PLC0415
            from stepwell.assembly.settings import Postgres, Redis  # noqa: PLC0415
            from stepwell.embedding.cache.cache import EmbeddingCache as Core  # noqa: PLC0415
        clock = SystemClock()
        places = Places(self._data_dir, Redis(url=self._redis), Postgres(url=self._postgres))
        async with AsyncExitStack() as stack:
            provider = await self._open_provider(stack)
            opened = await open_places(places, clock=clock, events=Fanout())
            core = Core(_Unheard(), stores=opened.stores, clock=clock)
            stack.push_async_callback(core.aclose)
            self._opened = _Opened(core, provider, stack.pop_all())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what is pending and close everything."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.stack.aclose()

    async def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """Return the vectors of ``texts``, shape ``(n, width)``; ``(0, 0)`` of none.

        Raises:
            RequestError: A text is no Unicode.
            EmbeddingError: The provider failed, or answered something that is no list of vectors.
            Exception: What the function raised.
        """
        return (await self.get(texts)).vectors()

    async def get(self, texts: Sequence[str], *, fresh: bool = False) -> "Batch":
        """Return the vectors of ``texts`` one by one, with their tokens and where they came from.

        Args:
            texts: Any of them more than once.
            fresh: Compute them anew. What is kept stays.

        Raises:
            Exception: As `embed`.
        """
        opened = self._entered()
        return await opened.core.get_many(self._kind, texts, opened.provider, reads=not fresh)

    async def delete(self, texts: Sequence[str]) -> int:
        """Remove the vectors of ``texts`` from everywhere; return how many there were.

        Raises:
            StoreError: A store could not do it; it is to be tried again.
        """
        return await self._entered().core.delete(self._kind, texts)

    async def flush(self) -> int:
        """Wait until what was computed has been written; return how many still wait."""
        return await self._entered().core.flush()

    @contextmanager
    def blocking(self) -> "Iterator[BlockingEmbeddingCache]":
        """Enter the cache on an event loop in a thread of its own, for a synchronous program.

        ::

            with stepwell.EmbeddingCache(base_url=url, model="bge-m3").blocking() as cache:
                vectors = cache.embed(["How do I reset my password?"])

        Raises:
            ConfigError, StoreUnavailable: As entering it.
        """
        portal = Portal()
        try:
            portal.call(self.__aenter__())
            try:
                yield BlockingEmbeddingCache(self, portal)
            finally:
                portal.call(self.__aexit__(None, None, None))
        finally:
            portal.close()

    def _entered(self) -> _Opened:
        if self._opened is None:
            raise RuntimeError("Use the cache inside `async with`.")
        return self._opened

    async def _open_provider(self, stack: AsyncExitStack) -> "Provider":
        if self._provider is not None:
            from stepwell.embedding.function_provider import FunctionProvider  # noqa: PLC0415

            return FunctionProvider(self._provider, self._limits)
        with extra_for("base_url is given", "gateway"):
            from stepwell.embedding.endpoint_provider import (  # noqa: PLC0415
                EmbeddingServer,
                EndpointProvider,
            )
        kind = self._kind
        server = EmbeddingServer(kind.provider, kind.model, self._api_key, kind.dimensions)
        provider = EndpointProvider(server, self._limits)
        stack.push_async_callback(provider.aclose)
        return provider


class BlockingEmbeddingCache:
    """An `EmbeddingCache` for callers in any thread. Made by `EmbeddingCache.blocking`."""

    def __init__(self, cache: EmbeddingCache, portal: Portal) -> None:
        self._cache = cache
        self._portal = portal

    def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """As `EmbeddingCache.embed`. Costs two thread switches more."""
        return self._portal.call(self._cache.embed(texts))

    def get(self, texts: Sequence[str], *, fresh: bool = False) -> "Batch":
        """As `EmbeddingCache.get`."""
        return self._portal.call(self._cache.get(texts, fresh=fresh))

    def delete(self, texts: Sequence[str]) -> int:
        """As `EmbeddingCache.delete`."""
        return self._portal.call(self._cache.delete(texts))

    def flush(self) -> int:
        """As `EmbeddingCache.flush`."""
        return self._portal.call(self._cache.flush())
