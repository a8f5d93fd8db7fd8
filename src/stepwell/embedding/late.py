"""An embedder that is only opened when something must be embedded."""

import asyncio
from collections.abc import Callable, Sequence

from stepwell.core.errors import ConfigError, EmbeddingError
from stepwell.core.vectors import Embedder, Embeddings
from stepwell.embedding.recipes import Facts


class LateEmbedder:
    """Implements `Embedder` by one that is opened at the first text.

    Loading a model takes a second and hundreds of megabytes; where vectors are kept, most runs of
    a program need none.
    """

    def __init__(self, facts: Facts, open_embedder: Callable[[], Embedder]) -> None:
        """Describe it.

        Args:
            facts: What is known of it before it is opened.
            open_embedder: Opens it; blocks, and is called in a thread, once.
        """
        self.model_id = facts.model_id
        self.dimensions = facts.dimensions
        self._open = open_embedder
        self._opening: asyncio.Task[Embedder] | None = None

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``.

        Raises:
            EmbeddingError: It cannot be opened, or failed.
        """
        if self._opening is None:
            self._opening = asyncio.ensure_future(asyncio.to_thread(self._open))
        try:
            embedder = await asyncio.shield(self._opening)
        except (ConfigError, OSError) as error:
            raise EmbeddingError(str(error)) from error
        return await embedder.embed(texts)

    async def aclose(self) -> None:
        """Close it, if it was opened. May be called twice."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        try:
            embedder = await opening
        except (ConfigError, OSError):
            return  # Whoever asked has heard of it.
        await embedder.aclose()
