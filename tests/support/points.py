"""Points and vectors for tests of the vector index, and the truth about what is near."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from stepwell.core.clock import Clock
from stepwell.core.events import Degraded, Event
from stepwell.core.names import Arrival, CacheKey, Namespace, Position
from stepwell.core.points import Candidate, Group, Point
from stepwell.core.vectors import Vector, Vectors
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.manifest import Identity
from stepwell.semantic.index.progress import Progress

DIMENSIONS = 16
IDENTITY = Identity("model", DIMENSIONS)
LATER = 1_000_000.0
"""Seconds at which nothing has expired."""


def make_id(name: str) -> bytes:
    """Return 32 bytes that no other name has."""
    return hashlib.sha256(name.encode()).digest()


def make_group(namespace: int = 0, model: str = "small", request_class: str = "general") -> Group:
    """Return what points share."""
    return Group(Namespace(namespace.to_bytes(16)), model, request_class)


def make_point(
    name: str = "point",
    *,
    partition: str = "partition",
    temperature: float | None = None,
    expires_at: float = LATER,
    position: int = 0,
    group: Group | None = None,
    tags: tuple[str, ...] = (),
) -> Point:
    """Return a point; its key and text follow from its name."""
    return Point(
        make_id(partition),
        CacheKey(make_id(name)),
        f"text of {name}",
        temperature,
        expires_at,
        Position(position),
        make_group() if group is None else group,
        tags,
    )


def make_vectors(count: int, seed: int = 0, dimensions: int = DIMENSIONS) -> Vectors:
    """Return unit vectors in all directions."""
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def make_near(vectors: Vectors, cosine: float, seed: int = 0) -> Vectors:
    """Return for each vector one at about ``cosine`` to it."""
    noise = make_vectors(len(vectors), seed + 1, vectors.shape[1])
    noise -= vectors * np.sum(noise * vectors, axis=1, keepdims=True)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    near: Vectors = (cosine * vectors + np.sqrt(1 - cosine**2) * noise).astype(np.float32)
    return near


class Degradations:
    """Keeps what the index complains about."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def emit(self, event: Event) -> None:
        """Keep ``event``."""
        assert isinstance(event, Degraded)
        assert event.component == "semantic.index"
        self.errors.append(event.error)


def make_index(
    directory: Path,
    clock: Clock,
    *,
    events: Degradations | None = None,
    bounds: Bounds | None = None,
    identity: Identity = IDENTITY,
) -> VectorIndex:
    """Return an index that has read nothing yet."""
    return VectorIndex(
        directory,
        identity,
        bounds=Bounds() if bounds is None else bounds,
        clock=clock,
        events=Degradations() if events is None else events,
    )


async def open_index(
    directory: Path,
    clock: Clock,
    *,
    events: Degradations | None = None,
    bounds: Bounds | None = None,
) -> VectorIndex:
    """Return an index that has read its directory; its gap is closed."""
    index = make_index(directory, clock, events=events, bounds=bounds)
    await index.refresh()
    if index.gap is not None:
        index.close_gap(index.gap)
    return index


def add_all(index: VectorIndex, names: Sequence[str], vectors: Vectors) -> None:
    """Add a point for each name."""
    for name, vector in zip(names, vectors, strict=True):
        index.add(make_point(name), vector)


def progress(position: int = 0, arrival: int = 0) -> Progress:
    """Return a progress."""
    return Progress(Position(position), Arrival(arrival))


def texts(candidates: Iterable[Candidate]) -> list[str]:
    """Return the names of the candidates' points."""
    return [candidate.text.removeprefix("text of ") for candidate in candidates]


def find(index: VectorIndex, vector: Vector, k: int = 1, now: float = 0.0) -> list[str]:
    """Return the names of the points nearest to ``vector``."""
    return texts(index.search(make_id("partition"), vector, k, now))
