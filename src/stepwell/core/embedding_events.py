"""What happened in the embedding cache, for metrics, log and ledger."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from stepwell.core.events import Degraded


class Source(StrEnum):
    """Where a vector came from."""

    MEMORY = "memory"
    """Of this process."""
    REDIS = "redis"
    POSTGRES = "postgres"
    DISK = "disk"
    SHARED = "shared"
    """Computed for another caller who asked for it at the same time."""
    ORIGIN = "origin"
    """Computed for this caller."""


@dataclass(frozen=True, slots=True)
class EmbeddingsServed:
    """A caller got vectors."""

    model: str
    """As it is asked for."""
    texts: Mapping[Source, int]
    """How many distinct texts came from where."""
    saved_tokens: int
    """Of the texts that were not computed for this caller."""
    seconds: float


@dataclass(frozen=True, slots=True)
class EmbeddingsComputed:
    """A provider answered a call."""

    model: str
    texts: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class EmbeddingInvalid:
    """A tier gave something that is no vector of that kind; it was taken for a miss."""

    tier: str


@dataclass(frozen=True, slots=True)
class EmbeddingsNotKept:
    """Vectors were computed and not kept: they will be computed again."""

    vectors: int
    why: str
    """``crowded``: too many wait for a store that fails. ``versions``: the full store has as many
    versions as it may have, or another kind under that name."""


@dataclass(frozen=True, slots=True)
class EmbeddingDrifted:
    """A provider has changed its model under its name.

    Until the operator names a new revision, nothing of that version is served or kept.
    """

    model: str
    version: str
    distance: float
    """Of a canary's vector from what it was, as a part of its length."""


EmbeddingEvent = (
    EmbeddingsServed
    | EmbeddingsComputed
    | EmbeddingInvalid
    | EmbeddingsNotKept
    | EmbeddingDrifted
    | Degraded
)


class EmbeddingSink(Protocol):
    """Where they go. Must not raise and must not block."""

    def emit(self, event: EmbeddingEvent) -> None:
        """Take one event."""
        ...
