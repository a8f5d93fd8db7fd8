"""Answers prompts, several at a time, computing of each only what is not kept."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from stepwell.core.errors import RequestError
from stepwell.core.kv import KvCache
from stepwell.engines.torch.counts import EngineCounts
from stepwell.engines.torch.model import Model
from stepwell.engines.torch.progress import Progress, Running, best_source
from stepwell.engines.torch.prompts import Prompt
from stepwell.engines.torch.sampling import Sampling
from stepwell.engines.torch.sequence import Pace, Sequence
from stepwell.engines.torch.turns import Turns

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Began:
    """An answer has begun: its prompt is computed."""

    cached_tokens: int
    """Of the prompt, not computed for it."""


@dataclass(frozen=True, slots=True)
class Generated:
    """One token of an answer."""

    token: int
    ends: bool
    """Whether it says that the answer is over; then it is not a part of it."""


class Engine:
    """A model, a cache of its keys and values, and the threads they work on. For one event loop.

    Requests take turns, some of a prompt or a token at a time, on one thread. They are not
    computed in one batch: then what comes out would depend, in the last bits, on who else asks.
    """

    def __init__(
        self,
        model: Model,
        cache: KvCache[torch.Tensor],
        *,
        slots: int = 2,
        max_waiting: int = 64,
    ) -> None:
        """Start no thread before the first request.

        Args:
            model: For this engine alone.
            cache: Others may use it too.
            slots: Requests computed at once; each holds keys and values for its prompt and answer.
            max_waiting: Requests that wait for a slot; of further ones, or of the tenant that has
                most of them, one is refused.
        """
        self._model = model
        self._cache = cache
        self._turns = Turns(slots, max_waiting)
        self._running = Running()
        self._pace = Pace()
        self._computing = ThreadPoolExecutor(1, "stepwell-compute")
        self._restoring = ThreadPoolExecutor(1, "stepwell-restore")
        self.counts = EngineCounts()

    @property
    def active(self) -> int:
        """Requests that are computed, or whose keys and values are being kept."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait for one."""
        return self._turns.waiting

    def check(self, prompt: Prompt) -> None:
        """Refuse a prompt that cannot be answered.

        Raises:
            RequestError: It is empty, or too long for the model.
        """
        limit = self._model.facts.context_tokens
        if not prompt.length:
            raise RequestError("the prompt is empty", param="prompt")
        if prompt.length >= limit:
            raise RequestError(
                f"the prompt has {prompt.length} tokens; the model takes {limit}, answer included",
                code="context_length_exceeded",
            )

    async def answer(
        self, prompt: Prompt, sampling: Sampling
    ) -> AsyncGenerator[Began | Generated, None]:
        """Yield that an answer has begun, then its tokens.

        Ends after a token that ends it, or after as many as are allowed. Close it to cancel: at
        once for the caller, for the thread that computes within 256 tokens of a prompt (0.7 s).
        What was computed until then is kept, what was borrowed is released.

        Raises:
            RequestError: The prompt is refused, or too many wait.
        """
        self.check(prompt)
        async with (
            self._turns.turn(prompt.tenant),
            self._ready(prompt, sampling) as (sequence, progress, cached),
        ):
            while (token := await self._compute(sequence.prefill)) is None:
                progress.move()
            progress.move()
            yield Began(cached)
            for number in range(sequence.answer_tokens):
                if number:
                    token = await self._compute(sequence.step)
                self.counts.generated_tokens += 1
                ends = token in self._model.facts.end_tokens
                yield Generated(token, ends)
                if ends:
                    break

    async def aclose(self) -> None:
        """End the threads, once what they do is done. Answers must have been closed before."""
        await asyncio.to_thread(self._restoring.shutdown)
        await asyncio.to_thread(self._computing.shutdown)

    @asynccontextmanager
    async def _ready(
        self, prompt: Prompt, sampling: Sampling
    ) -> AsyncIterator[tuple[Sequence, Progress, int]]:
        """Yield a sequence that others find, and that has what it could take from them.

        Clears up behind it, whatever happens.
        """
        sequence = Sequence(self._model, self._cache, self._pace, prompt, sampling)
        scope = self._model.facts.scope(prompt.tenant)
        progress = Progress(scope, prompt.tokens, sequence.working)
        counts = self.counts
        counts.requests += 1
        counts.prompt_tokens += prompt.length
        try:
            cached = await self._fill(sequence, progress, self._running.join(progress))
            yield sequence, progress, cached
        finally:
            progress.end()
            counts.prefill_seconds += sequence.prefill_seconds
            counts.generate_seconds += sequence.generate_seconds
            self._keep(sequence, progress)

    async def kept(self) -> None:
        """Return when all that was computed so far has been offered to the cache."""
        loop = asyncio.get_running_loop()

        def follow() -> Future[None]:
            return self._computing.submit(lambda: None)

        await asyncio.wrap_future(await loop.run_in_executor(self._restoring, follow))

    def _keep(self, sequence: Sequence, progress: Progress) -> None:
        """Have kept what was computed; until then others still find the sequence itself.

        Not awaited: whoever cancels does not wait. On the thread that restores first, so that it
        comes after whatever is done for the sequence just now.
        """
        loop = asyncio.get_running_loop()

        def work() -> None:
            sequence.keep()
            loop.call_soon_threadsafe(self._forget, sequence, progress)

        self._restoring.submit(self._computing.submit, work)

    def _forget(self, sequence: Sequence, progress: Progress) -> None:
        self._running.remove(progress)
        self.counts.cache_faults += sequence.cache_faults

    async def _fill(
        self, sequence: Sequence, progress: Progress, earlier: tuple[Progress, ...]
    ) -> int:
        """Take what is kept of a prompt, and what ``earlier`` ones compute; return how many tokens.

        What is kept while the cache is asked is missed there, so ``earlier`` was noted before.
        """
        loop = asyncio.get_running_loop()
        kept = await loop.run_in_executor(self._restoring, sequence.restore)
        self.counts.kept_tokens += kept
        progress.move()
        shared = 0
        while (best := best_source(progress, earlier)) is not None:
            other, tokens = best
            there = await other.reached(tokens)  # fewer, if it broke off: then another may do
            shared += await self._compute(sequence.take_over, other.working, there)
            progress.move()
        self.counts.shared_tokens += shared
        return kept + shared

    async def _compute(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._computing, work, *arguments)
