"""Vectors of texts, kept: what the embedding cache asks of the places where they stand.

Values pass as bytes that only `stepwell.embedding.cache` can read. So a store never changes a
vector, and what two stores hold of one text can be compared byte by byte.
"""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, NamedTuple, NewType, Protocol

ContentDigest = NewType("ContentDigest", bytes)
"""SHA-256 of what was embedded, and whose it is; 32 bytes. Made only by
`stepwell.embedding.cache.naming`."""

Deletions = NewType("Deletions", int)
"""How many deletions a full store has seen. What was begun before a deletion is not stored after
it, so that nothing comes back that was deleted meanwhile."""

Precision = Literal["f32", "f16", "i8"]
"""How the numbers of a vector are kept."""

EmbedTexts = Callable[[list[str]], Awaitable[Iterable[Iterable[float]]]]
"""A program's own function that embeds distinct texts. Returns a vector for each, in their order:
lists of numbers, or an array of shape ``(n, width)``."""

_NAME = re.compile(r"[^a-z0-9.]+")
_NAME_LENGTH = 40
_FINGERPRINT_HEX = 12


@dataclass(frozen=True)
class VectorKind:
    """Everything that changes the vector of a text. Two kinds share no vector."""

    provider: str
    """Who computes it: an upstream's identity, the address of a server, ``bundled``."""
    model: str
    """As it is asked for."""
    revision: str = ""
    """Of its weights: a digest, or what the operator changes by hand when they change."""
    dimensions: int | None = None
    """Width that is asked for; ``None``: the model's own."""
    normalization: str = "as given"
    """``unit`` where vectors are made of unit length, whatever comes."""
    pooling: str = ""
    prefix: str = ""
    """Put before every text: queries and documents are two kinds, then."""
    truncation: str = ""
    """What happens to longer texts than the model reads."""
    parameters: str = ""
    """Whatever else the request says that may matter; canonical JSON."""
    precision: Precision = "f32"
    """How they are kept, and so also how they are given out the first time."""

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of all of that, in canonical JSON; 32 bytes."""
        told = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(told.encode()).digest()

    @cached_property
    def version(self) -> str:
        """What it is called in keys and tables: a readable name and 48 bits of the fingerprint.

        Of ``a-z``, ``0-9``, ``.`` and ``-``; at most 53 characters. Whoever keeps a register of
        versions compares the whole fingerprint.
        """
        name = _NAME.sub("-", self.model.lower()).strip("-.")[:_NAME_LENGTH].rstrip("-.")
        return f"{name or 'model'}-{self.fingerprint.hex()[:_FINGERPRINT_HEX]}"


class Item(NamedTuple):
    """A vector as it is stored."""

    digest: ContentDigest
    value: bytes
    """Header and numbers; see `stepwell.embedding.cache.value`."""
    text: str | None = None
    """What was embedded, for a later version to embed it too; ``None``: not to be kept, or it was
    no text."""


class Found(NamedTuple):
    """What a store has of some digests."""

    values: Mapping[ContentDigest, bytes]
    """Only of those it has."""
    deletions: Deletions
    """Seen when it looked; 0 from a store that does not count them."""


class EmbeddingStore(Protocol):
    """A place where vectors stand, shared by processes.

    Safe for many tasks on one event loop. No call blocks the loop. Every method raises
    `StoreError` and nothing else when the store cannot do its work.
    """

    @property
    def tier(self) -> str:
        """``redis``, ``postgres`` or ``disk``; a metric label."""
        ...

    async def get(self, version: str, digests: Sequence[ContentDigest]) -> Found:
        """Return what it has of ``digests``, in one or few round trips."""
        ...

    async def put(
        self, version: str, items: Sequence[Item], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """Keep ``items``; what stands there already stays, and so does a deletion.

        Args:
            version: Theirs. If a full store has not registered it, or not any more, all is
                refused.
            items: Of distinct digests.
            deletions: Those the full store had seen before computing began.

        Returns:
            Which were refused: deleted since, as far as it knows. Let no other tier keep those.
        """
        ...

    async def delete(self, version: str, digests: Sequence[ContentDigest]) -> int:
        """Remove what it has of ``digests``, and refuse it from whoever began before; return how
        many there were.
        """
        ...

    async def retire(self, version: str) -> None:
        """Let a whole version go: at once where that is cheap, else with the time."""
        ...

    async def aclose(self) -> None:
        """Release everything. May be called twice."""
        ...


class Claims(Protocol):
    """Who computes what, among the processes that share a store."""

    async def claim(
        self, version: str, digests: Sequence[ContentDigest], milliseconds: int
    ) -> Collection[ContentDigest]:
        """Claim ``digests`` for so long; return those that nobody else has claimed.

        Raises:
            StoreError: The store does not answer.
        """
        ...

    async def release(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """Give up what was claimed. What another has claimed since stays theirs.

        Raises:
            StoreError: The store does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class VersionFigures:
    """A version, and what a full store has of it."""

    kind: VectorKind
    vectors: int
    """Counted; estimated where there are millions."""
    bytes: int
    """On disk, indexes included, as far as the store can tell."""
    with_text: int
    """Vectors whose text is known, and so can be embedded anew."""
    created_at: float
    """Seconds since the Unix epoch."""
    used_at: float
    """When one of its vectors was last asked for, to the day."""


class KnownText(NamedTuple):
    """A text that was embedded."""

    digest: ContentDigest
    text: str
    used_at: float


class FullStore(EmbeddingStore, Protocol):
    """Where every vector stands; all other tiers hold a part of it."""

    async def register(self, kind: VectorKind, *, at_most: int) -> None:
        """Make room for a version; nothing happens if there is already.

        Raises:
            StoreFull: There are ``at_most`` versions.
            VersionTaken: Another kind has the same name.
        """
        ...

    async def versions(self) -> Sequence[VersionFigures]:
        """Return all versions, newest first."""
        ...

    def touch(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """Note that other tiers answered for ``digests``: what is used is filled first, and leaves
        last. Buffered, to the day, for as many as there is room; waits for nothing.
        """
        ...

    async def canaries(self, version: str) -> Mapping[str, bytes]:
        """Return the vectors of some texts as they were when the version began, by text."""
        ...

    async def keep_canaries(self, version: str, values: Mapping[str, bytes]) -> None:
        """Keep such vectors, unless there are some."""
        ...

    async def unfilled(self, old: str, new: str, at_most: int) -> Sequence[KnownText]:
        """Return texts of ``old`` that have no vector in ``new``, those used last first."""
        ...

    async def covered(self, old: str, new: str) -> int:
        """Return how many texts of ``old`` have a vector in ``new``."""
        ...

    async def sample(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """Return some digests of a version, at random."""
        ...

    async def deleted(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """Return digests that were deleted of late, the last ones first."""
        ...
