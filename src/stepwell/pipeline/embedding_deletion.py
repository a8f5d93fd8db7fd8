"""Deleting the vectors of texts, whatever model made them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from stepwell.core.embedding import FullStore, VectorKind
from stepwell.core.names import Namespace
from stepwell.embedding.cache.cache import EmbeddingCache


@dataclass(frozen=True, slots=True)
class Erased:
    """What became of a deletion."""

    versions: int
    """Kinds of vectors that were looked through."""
    vectors: int
    """How many there were in the full store."""


class EmbeddingEraser:
    """Deletes texts' vectors of every version that is registered. For one event loop."""

    def __init__(self, cache: EmbeddingCache, full: FullStore | None) -> None:
        """Delete in ``cache``; ``full`` knows which versions there are."""
        self._cache = cache
        self._full = full

    async def erase(
        self, texts: Sequence[str], owner: Namespace | None, *, model: str = "*"
    ) -> Erased:
        """Delete the vectors of ``texts`` everywhere.

        Other processes' memory may answer for `Bounds.memory_seconds` more.

        Args:
            texts: As they were embedded.
            owner: Whose; ``None``: everybody's.
            model: Pattern of the models' names.

        Raises:
            StoreError: It was not done, or not wholly.
        """
        kinds = [kind for kind in await self._kinds() if fnmatchcase(kind.model, model)]
        deleted = [await self._cache.delete(kind, texts, owner) for kind in kinds]
        return Erased(len(kinds), sum(deleted))

    async def _kinds(self) -> Sequence[VectorKind]:
        if self._full is None:
            return ()
        return [version.kind for version in await self._full.versions()]
