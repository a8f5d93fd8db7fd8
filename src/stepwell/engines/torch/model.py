"""A causal language model of transformers: computes tokens into a `WorkingKv`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from stepwell.core.kv import KvScope
from stepwell.core.names import Namespace
from stepwell.engines.torch.kv_shape import KvShape
from stepwell.engines.torch.working_kv import WorkingKv, whole_spans

PASS_TOKENS = 256
"""Most that is computed of a prompt at once: 0.7 s of SmolLM2-135M, and others wait as long."""

ROW_TOKENS = 16
"""Prompts are computed in multiples of so many rows: with fewer, libraries multiply in another
order, and a token's result would depend on how many are computed along with it."""

PADDING = 0
"""A token like any other; what is computed for it is never seen."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model is."""

    name: str
    """It is served under."""
    weights: str
    """Their digest."""
    tokenizer: str
    """Its digest."""
    rope: str
    """All settings of positions."""
    shape: KvShape
    context_tokens: int
    """Prompt and answer together."""
    end_tokens: frozenset[int]
    """Each of them ends an answer."""
    vocabulary: int

    def scope(self, tenant: Namespace | None) -> KvScope:
        """Return what its KV blocks depend on, besides tokens."""
        return KvScope(
            model=f"{self.name} {self.weights}",
            tokenizer=self.tokenizer,
            dtype=self.shape.text,
            rope=self.rope,
            tenant=tenant,
        )


class Model:
    """Computes on torch's threads, which all models of a process share. For one thread at a time.

    In float32, what is computed for a token of a prompt depends on the tokens before it and on
    nothing else, to the last bit: not on where a kept prefix ended, nor on where the prompt does.
    See `ROW_TOKENS` and `SPAN_TOKENS`. Tokens that were generated are computed one by one, which
    comes out otherwise in the last bits.
    """

    def __init__(self, network: torch.nn.Module, facts: ModelFacts) -> None:
        """Take a network in evaluation mode."""
        self._network = network
        self.facts = facts

    def working(self, tokens: int) -> WorkingKv:
        """Return room for a sequence of so many tokens."""
        return WorkingKv(self.facts.shape, tokens)

    @torch.inference_mode()
    def prefill(self, working: WorkingKv, tokens: Sequence[int]) -> torch.Tensor | None:
        """Compute the next tokens of a prompt, at most 256.

        Args:
            working: Holds the tokens before.
            tokens: The whole prompt.

        Returns:
            After the last one, float32 logits for the token behind it, ``[vocabulary]``.
        """
        end = min(working.length + PASS_TOKENS, len(tokens))
        # Rather a few tokens again than too few rows; they come out as they are.
        start = max(0, min(working.length, end - ROW_TOKENS))
        rows = -(-(end - start) // ROW_TOKENS) * ROW_TOKENS
        ids = [*tokens[start:end], *[PADDING] * (rows - (end - start))]
        positions = torch.arange(start, start + rows)
        seen = whole_spans(start + rows)
        working.begin(start, seen=seen)
        logits: torch.Tensor = self._network(
            torch.tensor([ids]),
            cache=working.cache,
            attention_mask=(positions[:, None] >= torch.arange(seen))[None, None],
            position_ids=positions[None],
            logits_to_keep=torch.tensor([end - start - 1]),
        ).logits
        working.length = end
        return logits[0, 0].float() if end == len(tokens) else None

    @torch.inference_mode()
    def step(self, working: WorkingKv, token: int) -> torch.Tensor:
        """Compute one token behind those that are there; return logits, ``[vocabulary]``."""
        start = working.length
        working.begin(start)
        logits: torch.Tensor = self._network(
            torch.tensor([[token]]),
            cache=working.cache,
            position_ids=torch.tensor([[start]]),
            logits_to_keep=1,
        ).logits
        working.length = start + 1
        return logits[0, 0].float()


def use_threads(threads: int) -> None:
    """Let this process's models compute on so many processors.

    On a machine that does other work too, one is often faster than all: threads wait for each
    other. Never more than there are.
    """
    torch.set_num_threads(max(1, min(threads, os.cpu_count() or 1)))
