"""A worker's side of the connector: pages in, pages out."""

from dataclasses import dataclass
from typing import Protocol

from stepwell.core.clock import Clock
from stepwell.stores.kv.files import BlockFiles
from stepwell.vllm.loading import Loader, Shard
from stepwell.vllm.plan import StepPlan
from stepwell.vllm.saving import Saver

_IDLE_SECONDS = 0.005


class PagedMemory(Protocol):
    """The engine's KV memory as bytes."""

    @property
    def form(self) -> str:
        """Tells payloads apart that do not fit into each other's pages."""
        ...

    @property
    def block_bytes(self) -> int:
        """Length of a payload."""
        ...

    def copy_of(self, page: int) -> memoryview:
        """Return a page's bytes in memory of their own."""
        ...

    def fill(self, page: int, payload: memoryview) -> None:
        """Copy bytes of `copy_of` into a page."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """What is over since the last step."""

    saved: frozenset[str]
    """Requests whose pages are copied, and not needed any more."""
    loaded: frozenset[str]
    """Requests whose load is over, well or not."""
    failed_pages: frozenset[int]
    """Pages of those loads that were not filled, and must be computed."""


class WorkerSide:
    """Loads and saves beside the engine; touches its pages only between steps. One thread."""

    def __init__(
        self,
        files: BlockFiles,
        memory: PagedMemory,
        shard: Shard,
        *,
        load_timeout_seconds: float,
        clock: Clock,
    ) -> None:
        """Start the threads that read and write.

        Args:
            files: Where blocks are kept.
            memory: The engine's.
            shard: Which part of each block it holds.
            load_timeout_seconds: After this time a load is over, however far it has come.
            clock: Tells when that is.
        """
        self._files = files
        self._memory = memory
        self._loader = Loader(
            files,
            shard,
            form=memory.form,
            block_bytes=memory.block_bytes,
            timeout_seconds=load_timeout_seconds,
            clock=clock,
        )
        self._saver = Saver(files, shard, form=memory.form, block_bytes=memory.block_bytes)

    def start(self, plan: StepPlan) -> None:
        """Begin with what is planned for a step."""
        for load in plan.loads:
            self._loader.start(load)
        for save in plan.saves:
            self._saver.start(save)
        for save in plan.early_saves:
            self._saver.start_early(save)

    def step(self, *, is_idle: bool) -> Done:
        """Copy what has been read into its pages, and pages that are to be saved out of them.

        Args:
            is_idle: Whether the engine has nothing to compute. Then it does nothing but ask, over
                and over, whether loads are over, and takes the CPU from the threads that load: so
                this goes on for some milliseconds, or until a load is over.
        """
        loaded = self._loader.collect(
            self._memory.fill, wait_seconds=_IDLE_SECONDS if is_idle else 0.0
        )
        saved = self._saver.copy(self._memory.copy_of)
        return Done(frozenset(saved), loaded.request_ids, loaded.failed_pages)

    def counted(self) -> dict[str, int]:
        """Return what happened since the start, by name."""
        counts = self._files.counts()
        return {
            **{f"read_{outcome}": number for outcome, number in counts.reads.items()},
            **{f"write_{outcome}": number for outcome, number in counts.writes.items()},
            "bytes_read": counts.bytes_read,
            "bytes_written": counts.bytes_written,
            "evicted": counts.evicted_files,
            "load_timeout": self._loader.timeouts,
            "write_dropped": self._saver.dropped_blocks,
        }

    def close(self) -> None:
        """Write what waits, for some seconds at most, and let the threads end."""
        self._loader.close()
        self._saver.close()
