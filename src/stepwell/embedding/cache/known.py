"""Looking vectors up without ever computing one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from stepwell.core.clock import Clock
from stepwell.core.embedding import ContentDigest, VectorKind
from stepwell.core.embedding_events import EmbeddingSink, Source
from stepwell.core.names import Namespace
from stepwell.embedding.cache.job import Began, Given, served
from stepwell.embedding.cache.memory import Memory, Place
from stepwell.embedding.cache.naming import digest_of, digests_of
from stepwell.embedding.cache.provider import Input
from stepwell.embedding.cache.tiers import Tiers
from stepwell.embedding.cache.value import Embedding
from stepwell.embedding.cache.versions import Version, Versions

_PEEKED: Final = 64 << 10
"""Characters; more take too long to hash while others wait."""


class Known:
    """What memory and stores have. For one event loop; not thread-safe."""

    def __init__(
        self,
        versions: Versions,
        memory: Memory,
        tiers: Tiers,
        made: Callable[[Place], Embedding | None],
        *,
        clock: Clock,
        events: EmbeddingSink,
    ) -> None:
        """Look into ``memory``, then into ``tiers``.

        ``made`` has what was computed and is on its way there.
        """
        self._versions = versions
        self._memory = memory
        self._tiers = tiers
        self._made = made
        self._clock = clock
        self._events = events

    def peek(
        self, kind: VectorKind, inputs: Sequence[Input], *, owner: Namespace | None = None
    ) -> tuple[Given, ...] | None:
        """Return the vectors of ``inputs`` in their order, if memory has all of them.

        Waits for nothing. Costs 2 microseconds a text; long texts are not looked for.

        Raises:
            RequestError: A text is no Unicode.
        """
        if sum(map(len, inputs)) > _PEEKED:
            return None
        started = self._clock.monotonic()
        version = self._versions.of(kind)
        digests = [digest_of(given, owner) for given in inputs]
        found = {} if version.drifted else self.in_memory(version, digests)
        return self._all(kind, digests, found, started)

    async def find(
        self, kind: VectorKind, inputs: Sequence[Input], *, owner: Namespace | None = None
    ) -> tuple[Given, ...] | None:
        """Return the vectors of ``inputs`` in their order, if all of them are kept somewhere.

        Raises:
            RequestError: A text is no Unicode.
        """
        started = self._clock.monotonic()
        version = self._versions.of(kind)
        digests = await digests_of(inputs, owner)
        found = {} if version.drifted else (await self.look(version, digests))[0]
        return self._all(kind, digests, found, started)

    async def look(
        self, version: Version, wanted: Iterable[ContentDigest]
    ) -> tuple[dict[ContentDigest, Given], Began]:
        """Return what there is of ``wanted``, and what had been deleted when this began."""
        began = Began(self._memory.deletions, self._tiers.deletions)
        distinct = dict.fromkeys(wanted)
        found = self.in_memory(version, distinct)
        missing = [digest for digest in distinct if digest not in found]
        if missing:
            looked = await self._tiers.look(version, missing)
            began = Began(began.memory, looked.deletions)
            found.update(looked.found)
            self._memory.put(
                {
                    (version.fingerprint, digest): given.embedding
                    for digest, given in looked.found.items()
                },
                began.memory,
            )
        return found, began

    def in_memory(
        self, version: Version, digests: Iterable[ContentDigest]
    ) -> dict[ContentDigest, Given]:
        """Return what memory has of ``digests``."""
        found: dict[ContentDigest, Given] = {}
        for digest in digests:
            place = (version.fingerprint, digest)
            embedding = self._memory.get(place) or self._made(place)
            if embedding is not None:
                found[digest] = Given(embedding, Source.MEMORY)
        return found

    def _all(
        self,
        kind: VectorKind,
        digests: Sequence[ContentDigest],
        found: Mapping[ContentDigest, Given],
        started: float,
    ) -> tuple[Given, ...] | None:
        if not all(digest in found for digest in digests):
            return None
        self._events.emit(served(kind, found.values(), self._clock.monotonic() - started))
        return tuple([found[digest] for digest in digests])
