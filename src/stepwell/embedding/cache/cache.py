"""The embedding cache: texts in, vectors out, each computed once."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from stepwell.core.clock import Clock, SystemClock
from stepwell.core.embedding import ContentDigest, EmbeddingStore, VectorKind
from stepwell.core.embedding_events import EmbeddingSink, Source
from stepwell.core.errors import ConfigError, EmbeddingError, RequestError, StoreError, StoreFull
from stepwell.core.names import Namespace
from stepwell.embedding.cache.canary import CANARY_SECONDS, Canaries
from stepwell.embedding.cache.job import Began, Given, Job, Outcome, served
from stepwell.embedding.cache.known import Known
from stepwell.embedding.cache.memory import Memory
from stepwell.embedding.cache.naming import digests_of
from stepwell.embedding.cache.origin import Order, Origin
from stepwell.embedding.cache.pace import Pause
from stepwell.embedding.cache.provider import Input, NoVector, Provider
from stepwell.embedding.cache.registration import Registration
from stepwell.embedding.cache.tiers import Stores, Tiers
from stepwell.embedding.cache.turns import PATIENCE_SECONDS, Turns
from stepwell.embedding.cache.value import Embedding
from stepwell.embedding.cache.versions import Version, Versions
from stepwell.embedding.cache.writer import Writer

_GRACE_SECONDS: Final = 2.0
_DELETED_AT_ONCE: Final = 1_000
"""Some 10 ms of a store's time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an `EmbeddingCache` holds, and how long."""

    memory_bytes: int = 64 << 20
    memory_seconds: float = 60.0
    """How long this process's memory may answer for what another has deleted; without shared
    stores, for ever."""
    pending_bytes: int = 64 << 20
    """Of what waits to be written."""
    max_versions: int = 256
    """In the full store; what is beyond is computed, and not kept."""
    canary_seconds: float | None = CANARY_SECONDS
    """How often a provider's model is looked at; ``None``: never."""
    patience_seconds: float = PATIENCE_SECONDS
    """How long another process's computation is waited for."""
    keep_texts: bool = True
    """Texts stand beside their vectors in the full store, so that a later version can be filled."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ConfigError: A bound cannot be.
        """
        for name in ("memory_bytes", "pending_bytes", "max_versions", "patience_seconds"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; allowed: 0 or more.")
        for name in ("memory_seconds", "canary_seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name} is {value}; allowed: more than 0.")


@dataclass(frozen=True, slots=True)
class Batch:
    """Vectors in the order of the inputs."""

    items: tuple[Given, ...]

    @property
    def embeddings(self) -> tuple[Embedding, ...]:
        """One for each input."""
        return tuple(item.embedding for item in self.items)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Where each came from. A text that is there twice was computed once."""
        return tuple(item.source for item in self.items)

    @property
    def tokens(self) -> int:
        """Of all inputs, as the provider counted them."""
        return sum(item.embedding.tokens for item in self.items)

    def vectors(self) -> npt.NDArray[np.float32]:
        """Return a new array of shape ``(n, width)``; ``(0, 0)`` of no inputs."""
        if not self.items:
            return np.zeros((0, 0), np.float32)
        return np.stack([item.embedding.vector for item in self.items])


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """What a cache holds just now."""

    memory_entries: int
    memory_bytes: int
    pending_writes: int
    drifted: tuple[str, ...]
    """Versions whose provider has changed its model."""


class EmbeddingCache:
    """Vectors of texts, from memory, stores, or whoever computes them.

    Safe for many tasks on one event loop. No call blocks the loop. A store that fails costs time,
    never an answer.
    """

    def __init__(
        self,
        events: EmbeddingSink,
        *,
        stores: Stores | None = None,
        bounds: Bounds | None = None,
        clock: Clock | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Begin with an empty memory.

        Args:
            events: Hears what happens.
            stores: Behind memory; closed along with the cache.
            bounds: Of what is held.
            clock: The time.
            pause: Waits.
        """
        self._stores = stores = stores or Stores()
        self._bounds = bounds = bounds or Bounds()
        self._clock: Clock = clock or SystemClock()
        self._events = events
        self._versions = Versions()
        alone = not stores.caches and stores.full is None
        self._memory = Memory(
            bounds.memory_bytes,
            max_seconds=None if alone else bounds.memory_seconds,
            clock=self._clock,
        )
        self._registration = Registration(
            stores.full, max_versions=bounds.max_versions, clock=self._clock
        )
        self._tiers = Tiers(stores, events)
        self._writer = Writer(
            stores,
            self._tiers,
            self._registration,
            events,
            max_bytes=bounds.pending_bytes,
            keep_texts=bounds.keep_texts,
            pause=pause,
        )
        canaries = Canaries(
            stores.full, self._registration, events, every_seconds=bounds.canary_seconds
        )
        self._origin = Origin(self._memory, self._writer, self._turns(pause), canaries, events)
        self._known = Known(
            self._versions,
            self._memory,
            self._tiers,
            self._origin.made,
            clock=self._clock,
            events=events,
        )

    @property
    def figures(self) -> CacheFigures:
        """What it holds just now."""
        held = self._memory.figures
        return CacheFigures(held.entries, held.bytes, len(self._writer), self._versions.drifted())

    @property
    def known(self) -> Known:
        """Looks up, and computes nothing."""
        return self._known

    async def get_many(
        self,
        kind: VectorKind,
        inputs: Sequence[Input],
        provider: Provider,
        *,
        owner: Namespace | None = None,
        reads: bool = True,
        writes: bool = True,
    ) -> Batch:
        """Return the vectors of ``inputs``, in their order.

        Args:
            kind: Of the vectors.
            inputs: Texts and token arrays; any of them more than once.
            provider: Computes what is not known.
            owner: Whose vectors these are; ``None``: everybody's.
            reads: Take what is known; else everything is computed anew, for this caller alone.
            writes: Keep what is computed.

        Raises:
            RequestError: A text is no Unicode; or there are token arrays where the kind has a
                prefix, which cannot be put before them.
            EmbeddingError: The provider failed; `Refused`, `NoAnswer`, `BadReply` say how. What
                came all the same is kept.
            StepwellError: As the provider raised it.
        """
        if kind.prefix and not all(isinstance(given, str) for given in inputs):
            raise RequestError(
                "Token arrays cannot be embedded here, since each text gets a prefix: send texts.",
                code="tokens_with_prefix",
                param="input",
            )
        digests = await digests_of(inputs, owner)
        wanted = dict(zip(digests, inputs, strict=True))
        found = await self.settle(kind, wanted, provider, reads=reads, writes=writes)
        items = [found[digest] for digest in digests]
        return Batch(tuple(_given(item) for item in items))

    async def settle(
        self,
        kind: VectorKind,
        wanted: Mapping[ContentDigest, Input],
        provider: Provider,
        *,
        reads: bool = True,
        writes: bool = True,
    ) -> Mapping[ContentDigest, Outcome]:
        """Return what becomes of ``wanted``; as `get_many`, for digests that are known already."""
        started = self._clock.monotonic()
        version = self._versions.of(kind)
        found = await self._walk(version, wanted, provider, reads=reads, writes=writes)
        given = [outcome for outcome in found.values() if isinstance(outcome, Given)]
        self._events.emit(served(kind, given, self._clock.monotonic() - started))
        return found

    async def delete(
        self, kind: VectorKind, inputs: Iterable[Input], owner: Namespace | None = None
    ) -> int:
        """Remove the vectors of ``inputs`` everywhere; return how many the fullest tier had.

        What is being computed just now is given to who waits for it, and not kept.

        Raises:
            StoreError: A store could not do it. The others have; it is to be tried again.
        """
        return await self.delete_digests(kind, await digests_of(list(inputs), owner))

    async def delete_digests(self, kind: VectorKind, digests: Sequence[ContentDigest]) -> int:
        """Remove vectors everywhere; as `delete`."""
        distinct = list(dict.fromkeys(digests))
        places = [(kind.fingerprint, digest) for digest in distinct]
        self._origin.delete(places)
        deleted: int | None = None
        failure: StoreError | None = None
        # The truth first; memory last, since the others may fill it until they have deleted.
        full = [] if self._stores.full is None else [self._stores.full]
        for store in (*full, *reversed(self._stores.caches)):
            try:
                count = await _delete(store, kind.version, distinct)
            except StoreError as error:
                failure = failure or error
            else:
                deleted = count if deleted is None else deleted
        in_memory = self._memory.delete(places)
        self._origin.delete(places)
        if failure is not None:
            raise failure
        return in_memory if deleted is None else deleted

    async def register(self, kind: VectorKind) -> None:
        """Make sure that vectors of ``kind`` can be kept.

        Raises:
            StoreFull: The full store has no room for another version, or another kind under that
                name.
            StoreError: It does not say.
        """
        version = self._versions.of(kind)
        if not await self._registration.has_room(version):
            raise StoreFull(f"there is no room for {version.name}: retire an older version first.")

    async def flush(self, timeout_seconds: float | None = None) -> int:
        """Wait until what was computed has been written; return how many still wait."""
        await self._origin.landed()
        return await self._writer.flush(timeout_seconds)

    async def aclose(self) -> None:
        """Break off calls, write what has come, close the stores. May be called twice."""
        await self._origin.landed(_GRACE_SECONDS)
        await self._origin.aclose()
        await self._writer.aclose()
        await self._tiers.aclose()
        for cache in self._stores.caches:
            await cache.aclose()
        if self._stores.full is not None:
            await self._stores.full.aclose()

    def _turns(self, pause: Pause) -> Turns | None:
        if self._stores.claims is None:
            return None
        return Turns(
            self._stores.claims,
            self._tiers,
            self._events,
            clock=self._clock,
            pause=pause,
            patience_seconds=self._bounds.patience_seconds,
        )

    async def _walk(
        self,
        version: Version,
        wanted: Mapping[ContentDigest, Input],
        provider: Provider,
        *,
        reads: bool,
        writes: bool,
    ) -> dict[ContentDigest, Outcome]:
        """Ask memory, then the stores, then the provider."""
        reads, writes = reads and not version.drifted, writes and not version.drifted
        began = Began(self._memory.deletions, self._tiers.deletions)
        found: dict[ContentDigest, Outcome] = {}
        if reads:
            known, began = await self._known.look(version, wanted)
            found.update(known)
        elif writes:
            # Else what is computed is taken for older than the last deletion, and refused.
            began = Began(began.memory, await self._tiers.learn(version))
        missing = [digest for digest in wanted if digest not in found]
        if missing and reads:
            # Others may have computed some meanwhile.
            found.update(self._known.in_memory(version, missing))
            missing = [digest for digest in missing if digest not in found]
        if not missing:
            return found
        order = Order(version, provider, began, share=reads, keep=writes)
        found.update(await self._made(order, {digest: wanted[digest] for digest in missing}))
        if len({_width(outcome) for outcome in found.values()} - {0}) > 1:
            # The provider makes vectors of another width now: they cannot be mixed with old ones.
            return await self._walk(version, wanted, provider, reads=False, writes=False)
        return found

    async def _made(
        self, order: Order, wanted: Mapping[ContentDigest, Input]
    ) -> dict[ContentDigest, Outcome]:
        """Have ``wanted`` made, and wait for it.

        Raises:
            Exception: What the provider raised for the first that failed.
        """
        jobs = self._origin.join(order, wanted)
        break_off = True
        try:
            futures = {job.future for job in jobs}
            await asyncio.wait(futures, return_when=asyncio.FIRST_EXCEPTION)
            break_off = False  # If one failed: what has been sent is paid for, and kept.
            return {job.digest: _outcome(job, order) for job in _failed_first(jobs)}
        finally:
            self._origin.leave(jobs, break_off=break_off)


async def _delete(store: EmbeddingStore, version: str, digests: Sequence[ContentDigest]) -> int:
    """Delete a part at a time, so that whoever reads and writes meanwhile gets a turn."""
    parts = range(0, len(digests), _DELETED_AT_ONCE)
    return sum([await store.delete(version, digests[at : at + _DELETED_AT_ONCE]) for at in parts])


def _given(outcome: Outcome) -> Given:
    if isinstance(outcome, NoVector):
        raise EmbeddingError(f"a text has no vector: {outcome.why}")
    return outcome


def _width(outcome: Outcome) -> int:
    return 0 if isinstance(outcome, NoVector) else outcome.embedding.vector.size


def _failed_first(jobs: Sequence[Job]) -> list[Job]:
    """Return ``jobs``, but those that failed before those that are not done."""
    return sorted(jobs, key=lambda job: not (job.future.done() and job.future.exception()))


def _outcome(job: Job, order: Order) -> Outcome:
    outcome = job.future.result()
    if isinstance(outcome, Given) and job.group is not order.group:
        return Given(outcome.embedding, Source.SHARED)
    return outcome
