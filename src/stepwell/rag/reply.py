"""What a question comes to."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.core.documents import Passage
from stepwell.rag.stages import Stage


@dataclass(frozen=True, slots=True)
class Quoted:
    """A passage that the answer is made by."""

    document: str
    start: int
    """Where it begins in the document, in characters."""
    similarity: float
    """To the question: cosine, from -1 to 1."""
    updated_at: float
    """When the document's text last changed; seconds since the Unix epoch."""

    @classmethod
    def of(cls, passage: Passage) -> "Quoted":
        """Return ``passage`` without its text."""
        return cls(passage.document, passage.start, passage.similarity, passage.updated_at)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, what it is made by, and how it came."""

    answer: str
    passages: Sequence[Quoted]
    """In the order of the prompt, nearest first."""
    stages: Sequence[Stage]
    milliseconds: float
    """From the question to the answer."""

    @property
    def last_updated(self) -> float:
        """When the newest of the documents last changed; seconds since the Unix epoch."""
        return max(passage.updated_at for passage in self.passages)

    @property
    def documents(self) -> Sequence[str]:
        """The documents of the passages, each once."""
        return [*dict.fromkeys(passage.document for passage in self.passages)]
