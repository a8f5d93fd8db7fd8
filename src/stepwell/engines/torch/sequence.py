"""One sequence on its way through the model: what it has, and the work that is done for it."""

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

from stepwell.core.kv import KvCache, KvLease, Tokens
from stepwell.engines.torch.model import Model
from stepwell.engines.torch.prompts import Prompt, tokens_of
from stepwell.engines.torch.sampling import Sampler, Sampling
from stepwell.engines.torch.working_kv import WorkingKv

_log = logging.getLogger(__name__)

_PACE_WEIGHT = 0.2

_MEASURED_TOKENS = 64
"""Fewer at once take as long as if they were more."""


class Pace:
    """What computing a token of a prompt takes lately. For one thread."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.seconds_per_token = 0.0

    def note(self, tokens: int, seconds: float) -> None:
        """Take in what computing some tokens at once took."""
        if tokens < _MEASURED_TOKENS:
            return
        newest = seconds / tokens
        known = self.seconds_per_token
        self.seconds_per_token = known + _PACE_WEIGHT * (newest - known) if known else newest


class Sequence:
    """A prompt and what is generated behind it.

    Its methods block. All but `restore` are for the thread that computes; `restore` is called
    before them. Whatever the cache does, a sequence goes on: a fault of it is logged, and counts in
    ``cache_faults``.
    """

    def __init__(
        self,
        model: Model,
        cache: KvCache[torch.Tensor],
        pace: Pace,
        prompt: Prompt,
        sampling: Sampling,
    ) -> None:
        """Make room for the prompt and the longest answer; nothing is computed or looked up."""
        self._model = model
        self._cache = cache
        self._pace = pace
        self._ids = [*prompt.ids]
        self._prompt_tokens = len(self._ids)
        self._scope = model.facts.scope(prompt.tenant)
        self._sampler = Sampler(sampling)
        self._lease: KvLease[torch.Tensor] | None = None
        self._restored_tokens = 0
        self.answer_tokens = min(sampling.max_tokens, model.facts.context_tokens - len(self._ids))
        """The most it generates."""
        self.working = model.working(len(self._ids) + self.answer_tokens)
        self.cache_faults = 0
        self.prefill_seconds = 0.0
        self.generate_seconds = 0.0

    def restore(self) -> int:
        """Copy the longest kept prefix in; return how many tokens it has."""
        self._unharmed(self._restore)
        return self.working.length

    def take_over(self, other: WorkingKv, tokens: int) -> int:
        """Copy what another sequence has computed of a common prefix; return how much was new."""
        new = max(0, tokens - self.working.length)
        if new:
            self.working.copy_from(other, tokens)
        return new

    def prefill(self) -> int | None:
        """Compute up to 256 tokens of the prompt; once it is whole, return the answer's first."""
        before, started = self.working.length, perf_counter()
        logits = self._model.prefill(self.working, self._ids)
        seconds = perf_counter() - started
        self.prefill_seconds += seconds
        self._pace.note(self.working.length - before, seconds)
        return None if logits is None else self._choose(logits)

    def step(self) -> int:
        """Compute the token that was chosen last; return the next one."""
        started = perf_counter()
        token = self._choose(self._model.step(self.working, self._ids[-1]))
        self.generate_seconds += perf_counter() - started
        return token

    def keep(self) -> None:
        """Offer the cache what was computed, and let go of what was borrowed. Once, at the end."""
        try:
            if self.working.length > self._restored_tokens:
                self._unharmed(self._keep)
        finally:
            if self._lease is not None:
                self._unharmed(self._lease.release)

    def _choose(self, logits: torch.Tensor) -> int:
        token = self._sampler.choose(logits)
        self._ids.append(token)
        return token

    def _restore(self) -> None:
        tokens = tokens_of(self._ids)
        self._lease = lease = self._cache.lease(self._scope, tokens)
        if lease.matched_tokens:
            self.working.restore(lease.load())
            self._restored_tokens = self.working.length

    def _keep(self) -> None:
        length = self.working.length
        block_tokens = self._cache.block_tokens

        def cut(first: int, end: int) -> list[torch.Tensor]:
            return self.working.blocks(first, end, block_tokens)

        self._cache.keep(
            self._scope,
            Tokens(tokens_of(self._ids[:length])),
            cut,
            prompt_tokens=self._prompt_tokens,
            seconds_per_token=self._pace.seconds_per_token,
        )

    def _unharmed(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001  (whatever it is, it must cost no answer)
            self.cache_faults += 1
            _log.exception("The KV cache failed; the request goes on without it.")
