"""An engine that schedules requests as vLLM does, with pages of bytes: no model, no vLLM.

It is strict where vLLM is: pages of a load are not read before it is over, pages of a save do not
change before they are copied, and a page that a load could not fill must be computed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stepwell.core.clock import SystemClock
from stepwell.core.kv import KvScope
from stepwell.stores.kv.files import BlockFiles
from stepwell.vllm.asked import Asked, Lora, Scopes
from stepwell.vllm.distrust import Distrust
from stepwell.vllm.loading import Shard
from stepwell.vllm.lookups import Lookups
from stepwell.vllm.plan import StepPlan, name_blocks
from stepwell.vllm.scheduler import SchedulerSide
from stepwell.vllm.searching import Search
from stepwell.vllm.worker import WorkerSide

BLOCK_TOKENS = 4
PAGE_BYTES = 64
BASE = KvScope(model="m", tokenizer="", dtype="f32", rope="r")


def content_of(tokens: Sequence[int], lora: Lora | None) -> bytes:
    """Return what a model would leave in the page of a block: it depends on all tokens so far."""
    scope = repr(lora).encode()[:16].ljust(16)
    *_, last = name_blocks(scope, tokens, BLOCK_TOKENS)
    return last.id * (PAGE_BYTES // 16)


@dataclass
class Memory:
    """Pages of one worker."""

    pages: dict[int, bytes] = field(default_factory=dict)
    form: str = "bytes"
    block_bytes: int = PAGE_BYTES

    def copy_of(self, page: int) -> memoryview:
        return memoryview(bytearray(self.pages[page]))

    def fill(self, page: int, payload: memoryview) -> None:
        self.pages[page] = bytes(payload)


@dataclass(frozen=True)
class Outcome:
    """How a request went."""

    loaded_tokens: int
    pages_right: bool
    """Whether each page held what computing it would have left."""


class Engine:
    """Runs one request at a time over a folder that engines share."""

    def __init__(
        self,
        folder: Path,
        *,
        scope: KvScope = BASE,
        shards: int = 1,
        max_bytes: int = 10**8,
        adapter_version: Callable[[Path], str | None] = str,
        load_timeout_seconds: float = 5.0,
        early_blocks: int = 4,
    ) -> None:
        clock = SystemClock()
        self.files = BlockFiles(folder, max_bytes=max_bytes)
        scopes = Scopes(scope, adapter_version)
        search = Search(self.files, scopes, block_tokens=BLOCK_TOKENS, shards=shards)
        lookups = Lookups(search, timeout_seconds=5.0, clock=clock)
        self.scheduler = SchedulerSide(
            lookups, Distrust(clock), block_tokens=BLOCK_TOKENS, early_blocks=early_blocks
        )
        self.memories = [Memory() for _ in range(shards)]
        self.workers = [
            WorkerSide(
                self.files,
                memory,
                Shard(number, shards),
                load_timeout_seconds=load_timeout_seconds,
                clock=clock,
            )
            for number, memory in enumerate(self.memories)
        ]
        self._next_page = 0
        self._next_request = 0

    def run(
        self,
        prompt: Sequence[int],
        output: Sequence[int] = (),
        *,
        salt: str | None = None,
        lora: Lora | None = None,
        local_tokens: int = 0,
        is_preempted: bool = False,
    ) -> Outcome:
        """Run a request to its end.

        Args:
            prompt: Its tokens.
            output: What the model answers.
            salt: As in vLLM.
            lora: Likewise.
            local_tokens: How many tokens of the prompt vLLM has by itself.
            is_preempted: Whether the engine takes its pages away at the end, and says nothing.
        """
        self._next_request += 1
        request_id = f"request-{self._next_request}"
        tokens = [*prompt, *output]
        pages = [self._new_page() for _ in range(0, len(tokens), BLOCK_TOKENS)]
        self._compute(tokens, lora, pages, 0, local_tokens)
        loaded = self._load(Asked(request_id, prompt, salt, lora), pages, local_tokens)
        self._compute(tokens, lora, pages, local_tokens + loaded, len(prompt))
        for computed in range(len(prompt), len(tokens)):
            self._generate(request_id, tokens, lora, pages, computed)
        right = all(
            memory.pages[page] == content_of(tokens[: (number + 1) * BLOCK_TOKENS], lora)
            for memory in self.memories
            for number, page in enumerate(pages[: len(tokens) // BLOCK_TOKENS])
        )
        if not is_preempted and self.scheduler.finish(request_id, tokens, pages, len(tokens) - 1):
            self._until(lambda saved, _: request_id in saved)
        for page in pages:
            for memory in self.memories:
                memory.pages[page] = b"used by another request now".ljust(PAGE_BYTES)
        return Outcome(loaded, right)

    def close(self) -> None:
        """Shut down as vLLM does."""
        self.scheduler.close()
        for worker in self.workers:
            worker.close()

    def _load(self, asked: Asked, pages: Sequence[int], local_tokens: int) -> int:
        while (tokens := self.scheduler.match(asked, local_tokens)) is None:
            time.sleep(0.001)
        stop = local_tokens + tokens
        self.scheduler.allocate(asked.request_id, pages[: stop // BLOCK_TOKENS], tokens)
        if not tokens:
            return 0
        failed = self._until(lambda _, loaded: asked.request_id in loaded)
        first = local_tokens // BLOCK_TOKENS
        good = 0
        for page in pages[first : first + tokens // BLOCK_TOKENS]:
            if page in failed:
                break
            good += BLOCK_TOKENS
        return good

    def _until(self, is_over: Callable[[set[str], set[str]], bool]) -> set[int]:
        """Step until all workers say that a request is over; return the pages that failed."""
        plan = self.scheduler.take_plan()
        saved: list[set[str]] = [set() for _ in self.workers]
        loaded: list[set[str]] = [set() for _ in self.workers]
        failed: set[int] = set()
        while not all(map(is_over, saved, loaded)):
            for number, worker in enumerate(self.workers):
                worker.start(plan)
                done = worker.step(is_idle=self._next_request % 2 == 0)
                saved[number] |= done.saved
                loaded[number] |= done.loaded
                failed |= done.failed_pages
            plan = StepPlan()
            time.sleep(0.001)
        self.scheduler.loaded(set.intersection(*loaded), failed)
        return failed

    def _generate(
        self,
        request_id: str,
        tokens: Sequence[int],
        lora: Lora | None,
        pages: Sequence[int],
        computed_tokens: int,
    ) -> None:
        """Take a step that computes one token more."""
        self.scheduler.go_on(request_id, computed_tokens, lambda: pages)
        plan = self.scheduler.take_plan()
        for worker in self.workers:
            worker.start(plan)
        self._compute(tokens, lora, pages, computed_tokens, computed_tokens + 1)
        for worker in self.workers:
            done = worker.step(is_idle=False)
            assert not done.saved

    def _compute(
        self, tokens: Sequence[int], lora: Lora | None, pages: Sequence[int], start: int, stop: int
    ) -> None:
        for number in range(start // BLOCK_TOKENS, stop // BLOCK_TOKENS):
            for memory in self.memories:
                memory.pages[pages[number]] = content_of(
                    tokens[: (number + 1) * BLOCK_TOKENS], lora
                )

    def _new_page(self) -> int:
        self._next_page += 1
        for memory in self.memories:
            memory.pages[self._next_page] = bytes(PAGE_BYTES)
        return self._next_page
