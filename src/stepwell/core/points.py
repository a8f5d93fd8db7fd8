"""Questions as points: what an index of them holds, what a search returns, and who may search.

Needs numpy, as `stepwell.core.vectors` does; only rooms of the ``semantic`` extra import it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stepwell.core.entry import Selector
from stepwell.core.names import CacheKey, Namespace, Position
from stepwell.core.vectors import Vector

ID_BYTES = 32
"""Length of a cache key and of a partition."""


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


class PointServer(Protocol):
    """A server that keeps points and searches them, for all who share a store.

    Safe for many tasks on one event loop. No call blocks the loop. Every method raises `StoreError`
    and nothing else when the server cannot do its work.
    """

    @property
    def trouble(self) -> str:
        """Why it is not used just now; empty if it is."""
        ...

    async def search(
        self, partition: bytes, vector: Vector, k: int, now: float
    ) -> Sequence[Candidate]:
        """Return up to ``k`` points of ``partition`` nearest to ``vector``, nearest first.

        None of them has expired. Some near ones may be missed. Waits no longer than its budget.

        Args:
            partition: 32 bytes.
            vector: Of unit length.
            k: At least 1.
            now: Seconds since the epoch.
        """
        ...

    async def add(self, point: Point, vector: Vector) -> None:
        """Keep a point until it expires, in place of an older one under its key.

        Of two points of one key the one of the later position is newer, then the one that expires
        later.
        """
        ...

    async def remove(self, key: CacheKey) -> None:
        """Remove the point under ``key``, if there is one."""
        ...

    async def remove_where(self, selector: Selector, before: Position) -> None:
        """Remove the points of entries that ``selector`` means, of positions below ``before``."""
        ...

    async def remove_expired(self, now: float) -> None:
        """Remove some of what has expired, if that does not go by itself."""
        ...

    async def expiries(self, keys: Sequence[CacheKey]) -> Mapping[CacheKey, float]:
        """Return when the points under ``keys`` expire; those that are not there are left out."""
        ...

    async def lead(self, seconds: float) -> bool:
        """Ask to be the one of all who share it that tidies up; return whether one is, so long."""
        ...

    async def resign(self) -> None:
        """Let another lead, if one does."""
        ...

    async def aclose(self) -> None:
        """Release everything. May be called twice."""
        ...
