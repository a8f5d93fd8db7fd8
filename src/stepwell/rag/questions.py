"""Questions as vectors."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from stepwell.core.embedding import ContentDigest, VectorKind
from stepwell.core.embedding_events import Source
from stepwell.core.errors import RequestError
from stepwell.core.vectors import Embedder, Unfit, Vector
from stepwell.embedding.cache.cache import EmbeddingCache
from stepwell.embedding.cache.cached_embedder import EmbedderProvider, embedder_kind
from stepwell.embedding.cache.job import Given, Outcome
from stepwell.embedding.cache.naming import text_digest
from stepwell.embedding.cache.provider import Input, NoVector
from stepwell.embedding.documents.vectors import embed_parts
from stepwell.embedding.text import readable


class QuestionVector(NamedTuple):
    """A question as it is searched with."""

    vector: Vector
    source: Source
    """Where it came from."""


class QuestionEmbedder(Protocol):
    """Makes vectors of questions. Safe for many tasks on one event loop; no call blocks it."""

    @property
    def kind(self) -> VectorKind:
        """Of the passages that they can be compared with."""
        ...

    async def embed(self, question: str) -> QuestionVector:
        """Return the vector of a question.

        Raises:
            RequestError: There is nothing in it that could be embedded.
            EmbeddingError: It failed.
        """
        ...


class CachedQuestions:
    """Implements `QuestionEmbedder` by a cache, and an embedder for what that has not.

    Owns neither.
    """

    def __init__(self, embedder: Embedder, cache: EmbeddingCache) -> None:
        """Take questions for texts like the passages'."""
        self.kind = embedder_kind(embedder)
        self._provider = EmbedderProvider(embedder)
        self._cache = cache

    async def embed(self, question: str) -> QuestionVector:
        """As `QuestionEmbedder.embed`."""
        sources: list[Source] = []

        async def rows(texts: Sequence[str]) -> Sequence[Vector | Unfit]:
            digests = [text_digest(text, None) for text in texts]
            wanted: dict[ContentDigest, Input] = dict(zip(digests, texts, strict=True))
            found = await self._cache.settle(self.kind, wanted, self._provider)
            sources.extend(one.source for one in found.values() if isinstance(one, Given))
            return [_row(found[digest]) for digest in digests]

        [vector] = await embed_parts(rows, [readable(question)])
        if vector is None:
            raise RequestError(
                "The question has no words that the embedder knows, or too many.",
                code="unfit_question",
            )
        return QuestionVector(vector, Source.ORIGIN if Source.ORIGIN in sources else sources[0])


def _row(outcome: Outcome) -> Vector | Unfit:
    return outcome.why if isinstance(outcome, NoVector) else outcome.embedding.vector
