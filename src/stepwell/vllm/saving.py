"""Copying pages between steps, and writing the copies beside the engine."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Full, Queue
from threading import Thread

from stepwell.stores.kv.files import BlockFiles
from stepwell.stores.kv.format import BlockHeader, StoredBlock
from stepwell.vllm.loading import Shard
from stepwell.vllm.plan import Save, shard_digest

_MAX_WAITING_BYTES = 256 * 2**20
MAX_BYTES_A_STEP = 64 * 2**20
"""Copied between two steps of the engine, so that other requests do not wait for long."""

_CLOSING_SECONDS = 5.0


@dataclass(slots=True)
class _Copying:
    save: Save
    done: int = 0


class Saver:
    """Saves blocks. All methods on one thread, with another that writes.

    What cannot be written as fast as it comes is dropped: pages are wanted back.
    """

    def __init__(self, files: BlockFiles, shard: Shard, *, form: str, block_bytes: int) -> None:
        """Start the thread.

        Args:
            files: Where blocks are written to.
            shard: Which part of them.
            form: What a payload looks like.
            block_bytes: Length of a payload.
        """
        self._files = files
        self._shard = shard
        self._form = form
        self._blocks_a_step = max(1, MAX_BYTES_A_STEP // block_bytes)
        self._early: list[Save] = []
        self._copying: deque[_Copying] = deque()
        self._waiting: Queue[StoredBlock | None] = Queue(max(2, _MAX_WAITING_BYTES // block_bytes))
        self._thread = Thread(target=self._run, name="stepwell-save", daemon=True)
        self._thread.start()
        self.dropped_blocks = 0
        """How many were not written because the disk did not keep up."""

    def start(self, save: Save) -> None:
        """Copy the pages of ``save`` in one of the next steps."""
        self._copying.append(_Copying(save))

    def start_early(self, save: Save) -> None:
        """Copy all the pages of ``save`` in the next step; whoever plans it keeps it short."""
        self._early.append(save)

    def copy(self, copy_of: Callable[[int], memoryview]) -> set[str]:
        """Copy as much as one step allows; return the requests whose pages are not needed any more.

        Args:
            copy_of: Returns a copy of a page.
        """
        left = self._blocks_a_step
        for save in self._early:
            self._copy(save, 0, len(save.blocks), copy_of)
            left -= len(save.blocks)
        self._early.clear()
        over: set[str] = set()
        while self._copying and left > 0:
            current = self._copying[0]
            start, count = current.done, len(current.save.blocks)
            current.done = self._copy(current.save, start, min(start + left, count), copy_of)
            left -= current.done - start
            if current.done == count:
                over.add(current.save.request_id)
                self._copying.popleft()
        return over

    def close(self) -> None:
        """Write what waits, for some seconds at most."""
        try:
            self._waiting.put(None, timeout=_CLOSING_SECONDS)
        except Full:
            return
        self._thread.join(_CLOSING_SECONDS)

    def _copy(self, save: Save, start: int, stop: int, copy_of: Callable[[int], memoryview]) -> int:
        """Return which block is next; where the disk does not keep up, there is none."""
        digest = shard_digest(save.scope_digest, self._shard.number, self._shard.of)
        for number, placed in enumerate(save.blocks[start:stop], start):
            header = BlockHeader(
                scope_digest=digest,
                before=placed.block.before,
                tokens=placed.block.tokens,
                position=placed.block.position,
                form=self._form,
            )
            if not self._hand_over(header, placed.page, copy_of):
                self.dropped_blocks += len(save.blocks) - number
                return len(save.blocks)
        return stop

    def _hand_over(
        self, header: BlockHeader, page: int, copy_of: Callable[[int], memoryview]
    ) -> bool:
        if self._waiting.full():
            return False
        # Only this thread puts, so there is still room.
        self._waiting.put_nowait(StoredBlock(header, copy_of(page)))
        return True

    def _run(self) -> None:
        while (block := self._waiting.get()) is not None:
            self._files.write(block)
