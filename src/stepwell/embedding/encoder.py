"""What the embedders of this process have in common: texts in, vectors out, one at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepwell.core.errors import EmbeddingError
from stepwell.core.vectors import Unfit, Vector

Row = Vector | Unfit
"""What becomes of one text."""


class Encoder(Protocol):
    """A model in this process. Safe for many threads at once."""

    def encode(self, text: str) -> Row:
        """Return the vector of ``text``, or why it has none. Blocks for milliseconds.

        Raises:
            EmbeddingError: The model failed, or made something that is no vector.
        """
        ...


class Scorer(Protocol):
    """Compares texts by a model in this process. Safe for many threads at once."""

    def score(self, one: str, other: str) -> float | None:
        """Return how surely one answer serves both texts; as `stepwell.core.vectors.Comparer`.

        Blocks for milliseconds.

        Raises:
            EmbeddingError: The model failed.
        """
        ...


def score_pair(scorer: Scorer | None, pair: tuple[str, str]) -> float | None:
    """Return the score of ``pair``.

    Raises:
        EmbeddingError: The model failed, or there is no ``scorer``.
    """
    if scorer is None:
        raise EmbeddingError("this embedder cannot compare texts")
    return scorer.score(*pair)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as a model reads it."""

    ids: Sequence[int]
    """With those that mark start and end."""
    unknown: int
    """How many of them stand for text the model does not know."""


class Tokenizer(Protocol):
    """Cuts texts into tokens. Safe for many threads at once."""

    def tokens(self, text: str) -> Tokens | None:
        """Return the tokens of ``text``, or ``None`` if nothing is left of it."""
        ...


def judge(tokens: Tokens | None, *, window_tokens: int, unknown_share: float) -> Unfit | None:
    """Return why the vector of these tokens would mean nothing, if so."""
    if tokens is None:
        return Unfit.EMPTY
    if len(tokens.ids) > window_tokens:
        return Unfit.OVER_WINDOW
    return Unfit.UNKNOWN_TOKENS if tokens.unknown > unknown_share * len(tokens.ids) else None


def unit(vector: Vector) -> Vector:
    """Return ``vector`` with length 1.

    Raises:
        EmbeddingError: It has no direction: not finite, or zero.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the next line says it
        length = np.sqrt(np.dot(vector, vector))
    if not (np.isfinite(length) and length > 0):
        raise EmbeddingError("the model made a vector that is not finite, or zero")
    return np.asarray(vector / length, np.float32)
