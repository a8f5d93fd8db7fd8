"""Reading blocks from disk beside the engine, and putting them into its pages between steps."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Thread

from stepwell.core.clock import Clock
from stepwell.stores.kv.files import BlockFiles
from stepwell.stores.kv.format import StoredBlock
from stepwell.vllm.plan import Load, NamedBlock, shard_digest

_READERS = 2
"""Threads. One disk read and one check of what was read can go on at the same time."""

_MAX_ARRIVED_BYTES = 256 * 2**20
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Shard:
    """Which part of each block a worker keeps."""

    number: int
    of: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """Loads that are over since the last look."""

    request_ids: frozenset[str]
    failed_pages: frozenset[int]
    """Those that could not be filled: each of a load from the first failure on."""


@dataclass(slots=True, eq=False)
class _Job:
    load: Load
    deadline: float
    filled: int = 0
    """How many of its pages, from the first on."""
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class _Arrived:
    job: _Job
    payload: memoryview | None
    """``None``: the next block could not be had."""


class Loader:
    """Loads blocks. All methods on one thread, with two more that read."""

    def __init__(
        self,
        files: BlockFiles,
        shard: Shard,
        *,
        form: str,
        block_bytes: int,
        timeout_seconds: float,
        clock: Clock,
    ) -> None:
        """Start the threads.

        Args:
            files: Where blocks are read from.
            shard: Which part of them.
            form: What a payload must look like to be put into a page.
            block_bytes: Length of a payload.
            timeout_seconds: After this time a load is over, however far it has come.
            clock: Tells when that is.
        """
        self._files = files
        self._shard = shard
        self._form = form
        self._block_bytes = block_bytes
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._jobs: dict[str, _Job] = {}
        self._wanted: Queue[_Job | None] = Queue()
        self._arrived: Queue[_Arrived] = Queue(max(2, _MAX_ARRIVED_BYTES // block_bytes))
        for number in range(_READERS):
            Thread(target=self._run, name=f"stepwell-load-{number}", daemon=True).start()
        self.timeouts = 0
        """How many loads were given up because they took too long."""

    def start(self, load: Load) -> None:
        """Begin to read the blocks of ``load``."""
        job = _Job(load, self._clock.monotonic() + self._timeout_seconds)
        self._jobs[load.request_id] = job
        self._wanted.put(job)

    def collect(self, fill: Callable[[int, memoryview], None], *, wait_seconds: float) -> Loaded:
        """Fill pages with what has arrived, and return which loads that completes.

        Args:
            fill: Copies a payload into a page.
            wait_seconds: How long to wait for more to arrive, at most until a load is over.
        """
        over: set[str] = set()
        failed: set[int] = set()
        for arrived in self._all_arrived(wait_seconds if self._jobs else 0.0, over):
            job = arrived.job
            if job.is_over:
                continue
            if arrived.payload is not None:
                fill(job.load.blocks[job.filled].page, arrived.payload)
                job.filled += 1
            if arrived.payload is None or job.filled == len(job.load.blocks):
                failed |= self._end(job)
                over.add(job.load.request_id)
        now = self._clock.monotonic()
        for job in [job for job in self._jobs.values() if job.deadline <= now]:
            self.timeouts += 1
            failed |= self._end(job)
            over.add(job.load.request_id)
        return Loaded(frozenset(over), frozenset(failed))

    def close(self) -> None:
        """Let the threads end once they are done with what they do."""
        for job in self._jobs.values():
            job.is_over = True
        for _ in range(_READERS):
            self._wanted.put(None)

    def _all_arrived(self, wait_seconds: float, over: Collection[str]) -> Iterator[_Arrived]:
        until = self._clock.monotonic() + wait_seconds
        with suppress(Empty):
            while not over and (left_seconds := until - self._clock.monotonic()) > 0:
                yield self._arrived.get(timeout=left_seconds)
            for _ in range(self._arrived.maxsize):
                yield self._arrived.get_nowait()

    def _end(self, job: _Job) -> set[int]:
        """Return the pages that were not filled."""
        job.is_over = True
        del self._jobs[job.load.request_id]
        return {placed.page for placed in job.load.blocks[job.filled :]}

    def _run(self) -> None:
        while (job := self._wanted.get()) is not None:
            digest = shard_digest(job.load.scope_digest, self._shard.number, self._shard.of)
            for placed in job.load.blocks:
                payload = self._payload(digest, placed.block)
                self._hand_over(_Arrived(job, payload))
                if payload is None or job.is_over:
                    break

    def _payload(self, digest: bytes, block: NamedBlock) -> memoryview | None:
        stored = self._files.read(digest, block.id)
        if stored is None:
            return None
        if not self._fits(stored, block):
            self._files.discard(digest, block.id)
            return None
        return stored.payload

    def _fits(self, stored: StoredBlock, block: NamedBlock) -> bool:
        header = stored.header
        return (
            (header.before, header.tokens, header.position)
            == (block.before, block.tokens, block.position)
            and header.form == self._form
            and len(stored.payload) == self._block_bytes
        )

    def _hand_over(self, arrived: _Arrived) -> None:
        while not arrived.job.is_over:
            try:
                self._arrived.put(arrived, timeout=_PAUSE_SECONDS)
            except Full:
                continue
            return
