"""The texts a stream has had, by partition, and which of them lie near each other.

A cache that is asked one question after the other compares each with all that is stored. Here the
questions are known beforehand: a block of them is compared at once, by one product of matrices,
and for any number of caches that are tried side by side. That is some ten times as fast, and
nothing is approximate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stepwell.core.entry import Phrasing
from stepwell.core.errors import EmbeddingError
from stepwell.core.names import Partition
from stepwell.core.vectors import Embeddings, Unfit, Vector, Vectors
from stepwell.study.remembering import Embedded, RememberingEmbedder

NEAREST = 64
"""Neighbours kept at least of each text: a cache looks at eight, of those it has."""

NEAR = 0.5
"""All neighbours at least so near are kept: one cache of several may have only the farther ones."""

_ROWS_AT_ONCE = 64
_FIRST_ROWS = 4
_NEVER = -2.0
"""Below every cosine."""

Place = tuple[Partition, str]
"""A text in its partition."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Texts of one partition by falling similarity to one of them, which is among them."""

    texts: Sequence[str]
    rows: Sequence[int]
    """Into ``texts``."""
    similarities: Sequence[float]
    """Cosine, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Block:
    """What is known of a block of questions. It is an `Embedder` of their texts."""

    embedded: Mapping[str, Embedded]
    compared: frozenset[Partition]
    """Partitions that have more than one question. In others a question can only find nothing."""
    near: Mapping[tuple[Partition, bytes], Neighbours]
    """By partition and the bytes of the vector."""
    model_id: str
    dimensions: int

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """As `Embedder.embed`; it was done before."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        unfit: list[Unfit | None] = []
        for row, text in enumerate(texts):
            found = self.embedded[text]
            if isinstance(found, EmbeddingError):
                raise found
            unfit.append(found if isinstance(found, Unfit) else None)
            if not isinstance(found, Unfit):
                vectors[row] = found
        return Embeddings(vectors, tuple(unfit))

    async def aclose(self) -> None:
        """Do nothing."""

    def neighbours(self, partition: Partition, vector: Vector) -> Neighbours | None:
        """Return the texts near ``vector``, one of the block's; ``None``: there are none."""
        return self.near.get((partition, vector.tobytes()))


@dataclass(slots=True)
class _Group:
    """The texts of one partition."""

    rows: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    """How many caches have the text."""
    vectors: Vectors | None = None
    """Rows beyond ``texts`` are free. ``None`` until two texts are to be compared."""
    known: set[str] = field(default_factory=set)
    """Texts whose row of ``vectors`` is filled, or stays zero because they have none."""
    unfit: set[str] = field(default_factory=set)
    """Those of them that have none: they are near to nothing."""


class Texts:
    """The texts that some cache has, or is about to be asked for. Not thread-safe.

    A text is embedded only once there is another one in its partition: until then there is
    nothing to compare it with.
    """

    def __init__(self, embedder: RememberingEmbedder) -> None:
        """Have none."""
        self.embedder = embedder
        """Embeds them."""
        self._groups: dict[Partition, _Group] = {}
        self._asked: list[Place] = []

    def __len__(self) -> int:
        """Return how many texts there are."""
        return sum(len(group.texts) for group in self._groups.values())

    async def prepare(self, asked: Iterable[Phrasing]) -> Block:
        """Return what a block of questions needs; call `settle` when it has been asked.

        Cost: an embedding for each new text; then some 25 us for each question and thousand
        texts in its partition.
        """
        by_partition: dict[Partition, dict[tuple[str, float | None], None]] = {}
        for phrasing in asked:
            ways = by_partition.setdefault(phrasing.partition, {})
            ways[phrasing.text, phrasing.temperature] = None
        compared = {}
        for partition, ways in by_partition.items():
            texts = list(dict.fromkeys(text for text, _ in ways))
            if self._place(partition, texts) or len(ways) > 1:
                compared[partition] = texts
        embedded = await self._embed(compared)
        near: dict[tuple[Partition, bytes], Neighbours] = {}
        for partition, texts in compared.items():
            group = self._groups[partition]
            vectors = {
                text: found for text in texts if isinstance(found := embedded[text], np.ndarray)
            }
            for vector, neighbours in _neighbours(group, list(vectors.values())):
                near[partition, vector.tobytes()] = neighbours
        return Block(
            embedded,
            frozenset(compared),
            near,
            self.embedder.model_id,
            self.embedder.dimensions,
        )

    def neighbours(self, partition: Partition, vector: Vector) -> Neighbours | None:
        """Return the texts near any vector, by comparing it with each; as an index is asked.

        Cost: some 0.1 ms for each thousand texts.
        """
        group = self._groups.get(partition)
        if group is None:
            return None
        return next((near for _, near in _neighbours(group, [vector])), None)

    def hold(self, place: Place) -> None:
        """Note that one cache more has a text of the block that is being asked."""
        partition, text = place
        group = self._groups[partition]
        group.held[group.rows[text]] += 1

    def release(self, place: Place) -> None:
        """Note that one cache less has a text."""
        partition, text = place
        group = self._groups[partition]
        group.held[group.rows[text]] -= 1
        self._asked.append(place)

    def settle(self) -> None:
        """Forget the texts that no cache has."""
        for partition, text in dict.fromkeys(self._asked):
            group = self._groups.get(partition)
            if group is not None and text in group.rows and not group.held[group.rows[text]]:
                _drop(group, text)
                if not group.texts:
                    del self._groups[partition]
        self._asked.clear()

    def _place(self, partition: Partition, texts: Iterable[str]) -> bool:
        """Make room for texts that are asked; return whether others, or they, are held."""
        is_held = partition in self._groups
        group = self._groups.setdefault(partition, _Group())
        for text in texts:
            if text not in group.rows:
                group.rows[text] = len(group.texts)
                group.texts.append(text)
                group.held.append(0)
            self._asked.append((partition, text))
        return is_held

    async def _embed(self, compared: Mapping[Partition, Sequence[str]]) -> dict[str, Embedded]:
        """Return what the texts of the block are embedded as, and fill the rows of all others."""
        wanted = dict.fromkeys(
            text
            for partition, texts in compared.items()
            for text in (*texts, *self._unknown(partition))
        )
        embedded = await self.embedder.all_of(wanted)
        for partition in compared:
            group = self._groups[partition]
            for text in self._unknown(partition):
                found = embedded[text]
                _fill(group, text, found if isinstance(found, np.ndarray) else None)
        return embedded

    def _unknown(self, partition: Partition) -> list[str]:
        group = self._groups[partition]
        if len(group.known) == len(group.texts):
            return []
        return [text for text in group.texts if text not in group.known]


def _fill(group: _Group, text: str, vector: Vector | None) -> None:
    group.known.add(text)
    if vector is None:
        group.unfit.add(text)
        return
    row = group.rows[text]
    if group.vectors is None:
        group.vectors = np.zeros((max(_FIRST_ROWS, len(group.texts)), len(vector)), np.float32)
    elif row >= len(group.vectors):
        grown = np.zeros((max(2 * len(group.vectors), row + 1), len(vector)), np.float32)
        grown[: len(group.vectors)] = group.vectors
        group.vectors = grown
    group.vectors[row] = vector


def _drop(group: _Group, text: str) -> None:
    """Put the last text into the place of ``text``."""
    row, last = group.rows.pop(text), len(group.texts) - 1
    moved = group.texts[last]
    group.texts[row], group.held[row] = moved, group.held[last]
    if moved != text:
        group.rows[moved] = row
    group.texts.pop()
    group.held.pop()
    group.known.discard(text)
    group.unfit.discard(text)
    if group.vectors is not None:
        if last < len(group.vectors):
            group.vectors[row] = group.vectors[last]
            group.vectors[last] = 0
        elif row < len(group.vectors):
            group.vectors[row] = 0


def _neighbours(group: _Group, asked: list[Vector]) -> Iterable[tuple[Vector, Neighbours]]:
    if group.vectors is None:
        return
    # The texts as they stand now: rows move when the block is settled, and then nobody asks.
    stored = group.vectors[: len(group.texts)]
    unfit = [group.rows[text] for text in group.unfit]
    for start in range(0, len(asked), _ROWS_AT_ONCE):
        part = asked[start : start + _ROWS_AT_ONCE]
        for vector, similarities in zip(part, np.stack(part) @ stored.T, strict=True):
            similarities[unfit] = _NEVER
            rows = _nearest(similarities)
            clipped = np.clip(similarities[rows], 0, 1)
            # Each arm walks along them: lists are walked at twice the speed.
            yield vector, Neighbours(group.texts, rows.tolist(), clipped.tolist())


def _nearest(similarities: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    near = np.flatnonzero(similarities >= NEAR)
    if len(near) < NEAREST < len(similarities):
        near = np.argpartition(similarities, -NEAREST)[-NEAREST:]
    elif len(near) < NEAREST:
        near = np.arange(len(similarities))
    near = near[similarities[near] > _NEVER]
    # Among equals the one that came first comes first.
    return near[np.lexsort((near, -similarities[near]))]
