"""One text on its way to becoming a vector."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stepwell.core.embedding import ContentDigest, Deletions, Item, VectorKind
from stepwell.core.embedding_events import EmbeddingsServed, Source
from stepwell.embedding.cache.memory import Place
from stepwell.embedding.cache.provider import Input, NoVector
from stepwell.embedding.cache.value import Embedding
from stepwell.embedding.cache.versions import Version


@dataclass(frozen=True, slots=True)
class Given:
    """A vector, and where it came from."""

    embedding: Embedding
    source: Source


Outcome = Given | NoVector


def served(kind: VectorKind, found: Iterable[Given], took: float) -> EmbeddingsServed:
    """Return what is told of distinct texts that a caller got the vectors of."""
    texts: dict[Source, int] = {}
    saved_tokens = 0
    for given in found:
        texts[given.source] = texts.get(given.source, 0) + 1
        if given.source is not Source.ORIGIN:
            saved_tokens += given.embedding.tokens
    return EmbeddingsServed(kind.model, texts, saved_tokens, took)


@dataclass(frozen=True, slots=True)
class Began:
    """What had been deleted when work on a text began; see `EmbeddingStore.put`."""

    memory: Deletions
    full: Deletions


@dataclass(slots=True, eq=False)
class Job:
    """A text that is to be computed. Shared by all who wait for it; for one event loop."""

    version: Version
    digest: ContentDigest
    input: Input
    began: Began
    keep: bool
    """Whether its vector may be kept. No longer, once it has been deleted meanwhile."""
    group: object
    """Whoever asked first; a provider's refusal of a joined call is theirs only once it was made
    for them alone."""
    added_at: float
    """A clock's monotonic time."""
    future: "asyncio.Future[Outcome]"
    waiting: int = 1
    """Callers who wait for it."""
    alone: bool = False
    """To be sent with others of its group only."""
    is_claimed: bool = False
    """Among processes, this one computes it."""
    call: "UnderWay | None" = None
    """The call that it is part of."""
    value: bytes = field(default=b"", repr=False)
    """As it is stored, as soon as it is computed."""

    @property
    def place(self) -> Place:
        """Where memory has it."""
        return (self.version.fingerprint, self.digest)

    @property
    def size_bytes(self) -> int:
        """What keeping it in a queue takes."""
        text_bytes = len(self.input) * (1 if isinstance(self.input, str) else 8)
        return len(self.value) + text_bytes

    def item(self, *, with_text: bool) -> Item:
        """Return what is stored of it."""
        text = self.input if with_text and isinstance(self.input, str) else None
        return Item(self.digest, self.value, text)

    def land(self, outcome: Outcome) -> None:
        """Tell all who wait."""
        if not self.future.done():
            self.future.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        """Tell all who wait that there is no vector."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # Nobody may be waiting any more: that is no fault.


@dataclass(frozen=True, slots=True, eq=False)
class UnderWay:
    """A call to a provider."""

    jobs: Sequence[Job]
    task: "asyncio.Task[None]"
