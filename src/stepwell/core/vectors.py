"""Texts as vectors: what the semantic layer needs of an embedder.

Needs numpy; only rooms of the ``semantic`` extra import it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
"""Shape ``(dimensions,)``, of unit length."""

Vectors = npt.NDArray[np.float32]
"""Shape ``(n, dimensions)``; rows of unit length."""

_UNIT_TOLERANCE = 1e-3


class Unfit(StrEnum):
    """Why a text has no vector that means anything."""

    EMPTY = "empty"
    """Nothing in it but blanks."""
    UNKNOWN_TOKENS = "unknown-tokens"
    """Too many of its tokens are unknown to the model: other texts would get the same vector."""
    OVER_WINDOW = "over-window"
    """Longer than the model reads: what is beyond would not count."""


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """The vectors of some texts, in the order of the texts."""

    vectors: Vectors
    """The row of an unfit text is zero."""
    unfit: tuple[Unfit | None, ...]
    """For each text, why its row must not be used, or ``None``."""


class Embedder(Protocol):
    """Turns texts into vectors whose inner product is their similarity.

    Safe for many tasks on one event loop. No call blocks the loop. The properties do not change:
    plain attributes will do.
    """

    @property
    def model_id(self) -> str:
        """What makes its vectors its own: weights, mean, prefix, window. Vectors of different ids
        are never compared.
        """
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of ``texts``; the same text always gets the same bits.

        Raises:
            EmbeddingError: It failed, or did not answer within its time budget.
        """
        ...

    async def aclose(self) -> None:
        """Release everything. May be called twice."""
        ...


@runtime_checkable
class Comparer(Protocol):
    """Compares two texts more closely than their vectors do.

    Safe for many tasks on one event loop. No call blocks the loop.
    """

    async def score(
        self, one: str, other: str, *, within_seconds: float | None = None
    ) -> float | None:
        """Return how surely one answer serves both texts, in [0, 1]; the same in either order.

        ``None`` if it cannot tell, as for texts that are too long for it.

        Args:
            one: A text.
            other: The other one.
            within_seconds: How long the caller waits at most; by default, the time budget.

        Raises:
            EmbeddingError: It failed, or did not answer in time.
        """
        ...


def checked_vector(vector: Vector, dimensions: int) -> Vector:
    """Return ``vector`` as it is searched and stored.

    Raises:
        ValueError: Another shape, no numbers, or not of unit length.
    """
    if vector.shape != (dimensions,):
        raise ValueError(f"vector of shape {vector.shape}; the index has {dimensions} dimensions")
    vector = np.ascontiguousarray(vector, dtype=np.float32)
    # A sum with NaN in it is in no range.
    if not abs(float(vector @ vector) - 1.0) < _UNIT_TOLERANCE:
        raise ValueError("vector is not of unit length")
    return vector
