"""`DiskEmbeddings`: the full store of vectors on one SQLite file that processes share."""

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from stepwell.core.clock import Clock
from stepwell.core.embedding import (
    ContentDigest,
    Deletions,
    Found,
    Item,
    KnownText,
    VectorKind,
    VersionFigures,
)
from stepwell.core.errors import StoreFull, StoreUnavailable
from stepwell.core.events import Degraded
from stepwell.core.ports import EventSink
from stepwell.stores.disk import jobs
from stepwell.stores.disk.database import Alone, Database
from stepwell.stores.disk.embeddings import claims, vectors, versions
from stepwell.stores.disk.embeddings.bounds import Bounds
from stepwell.stores.disk.embeddings.schema import NAME, TABLES
from stepwell.stores.disk.files import Files
from stepwell.stores.disk.jobs import Lane
from stepwell.stores.disk.transactions import Reads, Writes
from stepwell.stores.uses import Uses, day_of

T = TypeVar("T")

SLOW_SECONDS: Final = 30.0
"""Allowed for everything but `DiskEmbeddings.get`."""

_READS: Final = jobs.Bounds(
    jobs=256, size_bytes=2**20, batch_jobs=16, batch_bytes=2**20, overflow=StoreUnavailable
)
_WRITES: Final = jobs.Bounds(
    jobs=1_024, size_bytes=64 * 2**20, batch_jobs=256, batch_bytes=8 * 2**20, overflow=StoreFull
)
_HOLDER_BYTES: Final = 8


class DiskEmbeddings:
    """As `stepwell.core.embedding.FullStore` and `Claims`, in a directory of this machine.

    Open it in the process that uses it, on the event loop that calls it. Two threads, one that
    reads and one that writes, do everything that can block. A get costs some 20 us for the way to
    the thread and back, and 5 us a vector.

    A killed process loses nothing that was acknowledged; a power cut may lose the last vectors,
    but no deletion. What was used longest ago leaves first, to the day. A damaged file is moved
    aside, where the newest two are kept and not counted, and started empty.
    """

    tier: Final = "disk"

    def __init__(
        self,
        files: Files,
        *,
        max_bytes: int,
        clock: Clock,
        events: EventSink,
        timeout_seconds: float,
        poll_seconds: float,
    ) -> None:
        """Use `open`."""
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._holder = secrets.token_bytes(_HOLDER_BYTES)
        self._uses = Uses(self._write_uses, clock)
        database = partial(
            Database, files, TABLES, clock, beside=Alone(), component="embeddings.disk"
        )
        lane = partial(Lane[sqlite3.Connection], clock=clock, events=events)
        self._reads = lane(
            "embedding reads", Reads(database()), bounds=_READS, poll_seconds=poll_seconds
        )
        self._writes = lane(
            "embedding writes",
            Writes(database(), keep_bounds=Bounds(max_bytes).keep),
            bounds=_WRITES,
            poll_seconds=poll_seconds,
        )

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        max_bytes: int,
        clock: Clock,
        events: EventSink,
        timeout_seconds: float = 0.25,
        poll_seconds: float = 1.0,
    ) -> Self:
        """Open the store in ``directory``, which is made, for this user only, if need be.

        Args:
            directory: On a local file system.
            max_bytes: Bound on the sum of values and texts, and what is charged for each.
            clock: For the day of uses, and the end of claims.
            events: Gets `Degraded`, on the calling loop.
            timeout_seconds: How long `get` may take.
            poll_seconds: How often what was retired is cleared away while nothing is asked.

        A file that cannot be opened because the disk is full is no reason not to begin: every call
        tries anew, and fails until there is space.

        Raises:
            StoreUnavailable: The directory cannot be used; says why and what to do.
        """
        files = Files(directory, NAME)
        await asyncio.to_thread(files.make_directory)
        store = cls(
            files,
            max_bytes=max_bytes,
            clock=clock,
            events=events,
            timeout_seconds=timeout_seconds,
            poll_seconds=poll_seconds,
        )
        try:
            await store._write(_nothing)
        except StoreFull as error:
            events.emit(Degraded("embeddings.disk", str(error)))
        except BaseException:
            await store.aclose()
            raise
        return store

    async def get(self, version: str, digests: Sequence[ContentDigest]) -> Found:
        """As `EmbeddingStore.get`; bounded by ``timeout_seconds``."""
        found = await self._reads.call(
            partial(vectors.find, version=version, digests=digests),
            timeout_seconds=self._timeout_seconds,
        )
        self._uses.note(version, found.values)
        return found

    async def put(
        self, version: str, items: Sequence[Item], deletions: Deletions
    ) -> Collection[ContentDigest]:
        """As `EmbeddingStore.put`. What comes while others are being written shares a commit.

        Raises:
            StoreFull: Too much waits to be written, or no space.
        """
        work = partial(
            vectors.keep,
            version=version,
            items=items,
            deletions=deletions,
            today=day_of(self._clock),
        )
        size_bytes = sum(len(item.value) + len(item.text or "") for item in items)
        return await self._writes.call(work, timeout_seconds=SLOW_SECONDS, size_bytes=size_bytes)

    async def delete(self, version: str, digests: Sequence[ContentDigest]) -> int:
        """As `EmbeddingStore.delete`; flushed to disk."""
        work = partial(vectors.delete, version=version, digests=digests, now=self._clock.now())
        return await self._write(work, durable=True)

    async def retire(self, version: str) -> None:
        """As `EmbeddingStore.retire`: forgotten at once, cleared away by and by."""
        await self._write(partial(versions.retire, version=version), durable=True)

    async def register(self, kind: VectorKind, *, at_most: int) -> None:
        """As `FullStore.register`."""
        now = self._clock.now()
        await self._write(partial(versions.register, kind=kind, at_most=at_most, now=now))

    def touch(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `FullStore.touch`."""
        self._uses.note(version, digests)

    async def versions(self) -> Sequence[VersionFigures]:
        """As `FullStore.versions`. Among the writes: counting keeps no `get` waiting."""
        return await self._write(versions.figures)

    async def canaries(self, version: str) -> Mapping[str, bytes]:
        """As `FullStore.canaries`."""
        return await self._write(partial(versions.canaries, version=version))

    async def keep_canaries(self, version: str, values: Mapping[str, bytes]) -> None:
        """As `FullStore.keep_canaries`."""
        await self._write(partial(versions.keep_canaries, version=version, values=values))

    async def unfilled(self, old: str, new: str, at_most: int) -> Sequence[KnownText]:
        """As `FullStore.unfilled`. Looks through all of ``old``: ask for many at a time."""
        return await self._write(partial(vectors.unfilled, old=old, new=new, at_most=at_most))

    async def covered(self, old: str, new: str) -> int:
        """As `FullStore.covered`. Looks through all of ``old``."""
        return await self._write(partial(vectors.covered, old=old, new=new))

    async def sample(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """As `FullStore.sample`."""
        return await self._write(partial(vectors.sample, version=version, at_most=at_most))

    async def deleted(self, version: str, at_most: int) -> Sequence[ContentDigest]:
        """As `FullStore.deleted`: those of the last hour."""
        return await self._write(partial(vectors.deleted, version=version, at_most=at_most))

    async def claim(
        self, version: str, digests: Sequence[ContentDigest], milliseconds: int
    ) -> Collection[ContentDigest]:
        """As `Claims.claim`."""
        now = self._clock.now()
        work = partial(
            claims.claim,
            version=version,
            digests=digests,
            holder=self._holder,
            now=now,
            ends_at=now + milliseconds / 1000,
        )
        return await self._write(work)

    async def release(self, version: str, digests: Sequence[ContentDigest]) -> None:
        """As `Claims.release`."""
        await self._write(
            partial(claims.release, version=version, digests=digests, holder=self._holder)
        )

    async def aclose(self) -> None:
        """As `EmbeddingStore.aclose`. Uses that were noted are written."""
        await self._uses.aclose()
        await self._writes.aclose(SLOW_SECONDS)
        await self._reads.aclose(SLOW_SECONDS)

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        return await self._writes.call(work, timeout_seconds=SLOW_SECONDS, durable=durable)

    async def _write_uses(self, version: str, digests: Sequence[ContentDigest], day: int) -> None:
        await self._write(partial(vectors.note_uses, version=version, digests=digests, day=day))


def _nothing(_connection: sqlite3.Connection) -> None:
    """Find out whether the file can be used."""
