"""Vectors of chunks: what sync asks of whoever makes them."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from stepwell.core.embedding import VectorKind
from stepwell.core.vectors import Embedder, Unfit, Vector
from stepwell.embedding.encoder import unit

_HALVINGS = 2
"""A chunk that is too long for the model is embedded in quarters at most."""


class ChunkVectors(NamedTuple):
    """The vectors of some texts."""

    vectors: Sequence[Vector | None]
    """In the order of the texts, of unit length; ``None``: it has none that means anything."""
    known: int
    """Of how many texts they were known before."""


class ChunkEmbedder(Protocol):
    """Makes vectors of chunks. Safe for many tasks on one event loop; no call blocks it."""

    @property
    def kind(self) -> VectorKind:
        """Of its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Their width."""
        ...

    async def embed(self, texts: Sequence[str]) -> ChunkVectors:
        """Return the vectors of distinct ``texts``.

        Raises:
            EmbeddingError: It failed.
        """
        ...

    async def forget(self, texts: Sequence[str]) -> None:
        """Forget what is known of ``texts``, which no document has any more.

        Raises:
            StoreError: It could not be done.
        """
        ...


Rows = Callable[[Sequence[str]], Awaitable[Sequence[Vector | Unfit]]]
"""Embeds texts as they are."""


class UncachedChunks:
    """Implements `ChunkEmbedder` by an embedder alone: what is computed is kept nowhere else."""

    def __init__(self, embedder: Embedder, kind: VectorKind) -> None:
        """Compute by ``embedder``, whose vectors are of ``kind``."""
        self._embedder = embedder
        self.kind = kind
        self.dimensions = embedder.dimensions

    async def embed(self, texts: Sequence[str]) -> ChunkVectors:
        """As `ChunkEmbedder.embed`."""
        return ChunkVectors(await embed_parts(self._rows, texts), 0)

    async def forget(self, texts: Sequence[str]) -> None:
        """Do nothing."""

    async def _rows(self, texts: Sequence[str]) -> Sequence[Vector | Unfit]:
        found = await self._embedder.embed(texts)
        return [
            row if unfit is None else unfit
            for row, unfit in zip(found.vectors, found.unfit, strict=True)
        ]


async def embed_parts(embed: Rows, texts: Sequence[str]) -> Sequence[Vector | None]:
    """Return the vector of each text, of too long ones the mean of their parts'.

    Raises:
        EmbeddingError: As ``embed``.
    """
    return [*map(_mean, await _parts(embed, texts, _HALVINGS))]


def with_parts(texts: Sequence[str], halvings: int = _HALVINGS) -> Iterator[str]:
    """Yield ``texts``, and all parts of them that may have been embedded in their place."""
    yield from texts
    if halvings:
        yield from with_parts([part for text in texts for part in halves(text)], halvings - 1)


def halves(text: str) -> tuple[str, str]:
    """Return both halves of ``text``, parted at a blank if there is one near the middle."""
    middle = len(text) // 2
    blank = text.find(" ", middle, middle + middle // 2)
    at = middle if blank < 0 else blank
    return text[:at], text[at:]


async def _parts(embed: Rows, texts: Sequence[str], halvings: int) -> list[list[Vector]]:
    """Return the vectors of each text: its own, or those of its halves if it is too long."""
    rows = await embed(texts)
    parts = [[] if isinstance(row, Unfit) else [row] for row in rows]
    long = [at for at, row in enumerate(rows) if row is Unfit.OVER_WINDOW]
    if long and halvings:
        split = [half for at in long for half in halves(texts[at])]
        deeper = await _parts(embed, split, halvings - 1)
        for number, at in enumerate(long):
            parts[at] = deeper[2 * number] + deeper[2 * number + 1]
    return parts


def _mean(parts: Sequence[Vector]) -> Vector | None:
    return unit(np.mean(parts, axis=0, dtype=np.float32)) if parts else None
