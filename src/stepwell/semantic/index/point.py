"""What the index holds, and what a search returns."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Namespace, Position
from stepwell.core.vectors import Vector

ID_BYTES = 32
"""Length of a cache key and of a partition."""

_UNIT_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Group:
    """What invalidations name and many points share."""

    namespace: Namespace
    model: str
    request_class: str


@dataclass(frozen=True, slots=True)
class Point:
    """All the index knows of an entry, but for its vector.

    It names the entry's namespace, model, class and tags, so that an invalidation can be obeyed
    here and now: the store says only how many entries it removed, and they are gone by then.
    """

    partition: bytes
    """32 bytes: all of a request but the replaceable text and the temperature."""
    key: CacheKey
    text: str
    """The replaceable text."""
    temperature: float | None
    expires_at: float
    """Seconds since the Unix epoch; the point never matches from then on."""
    position: Position
    """Position of the change feed when the upstream was asked: the entry's ``as_of``."""
    group: Group
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise `ValueError` for a key or partition of another length."""
        if len(self.key) != ID_BYTES or len(self.partition) != ID_BYTES:
            raise ValueError(f"key and partition have {ID_BYTES} bytes each")

    def is_meant(self, selector: Selector) -> bool:
        """Return whether an invalidation by ``selector`` means this point's entry."""
        return (
            (selector.key is None or selector.key == self.key)
            and group_is_meant(self.group, selector)
            and (selector.tag is None or selector.tag in self.tags)
        )


class Candidate(NamedTuple):
    """A point near the vector that was asked for. Its entry may be gone: ask the store.

    A tuple, because each search makes several, and a frozen dataclass costs five times as much.
    """

    key: CacheKey
    text: str
    temperature: float | None
    expires_at: float
    position: Position
    similarity: float
    """Cosine, computed in float32 from the vectors as they were added; 0 to 1."""


def group_is_meant(group: Group, selector: Selector) -> bool:
    """Return whether ``selector`` says nothing against ``group``."""
    return (
        selector.namespace in (None, group.namespace)
        and selector.model in (None, group.model)
        and selector.request_class in (None, group.request_class)
    )


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
