"""Keys and values of one sequence, while it is computed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicLayer

from stepwell.engines.torch.kv_shape import KvShape

SPAN_TOKENS = 512
"""Tokens of a prompt see keys up to a multiple of so many, those that are not there yet masked.
Torch's attention takes keys in such spans, one after the other. A span that is masked as a whole
changes no bit; a part of one would be added up in another order."""


class WorkingKv:
    """One tensor ``[L, 2, H, capacity, D]`` that is filled from its beginning.

    Transformers' own cache makes a new tensor for each token; this one is written in place. Not
    shared: blocks are copied in and out, so nobody else's blocks can be changed by it, and what it
    held is free as soon as nobody refers to it. For one thread at a time.
    """

    def __init__(self, shape: KvShape, tokens: int) -> None:
        """Make room for ``tokens``. The system gives it memory only as far as it is written."""
        self.shape = shape
        # Zeros, because a masked value is multiplied by nought, and nought times NaN is NaN. From
        # numpy, whose zeros come from the system page by page, when they are touched.
        zeros = np.zeros(whole_spans(tokens) * shape.token_bytes, dtype=np.uint8)
        self._tensor = torch.from_numpy(zeros).view(shape.dtype).view(shape.of(whole_spans(tokens)))
        self._start = 0
        self._seen = 0
        self.length = 0
        """Tokens from the first on whose keys and values are there."""
        self.cache = Cache(layers=[_Layer(self, number) for number in range(shape.layers)])
        """The same, as a model of transformers takes it."""

    def restore(self, blocks: Sequence[torch.Tensor]) -> None:
        """Copy blocks in, from the first token on: ``[L, 2, H, block_tokens, D]`` each."""
        end = 0
        for block in blocks:
            start, end = end, end + block.shape[3]
            self._tensor[:, :, :, start:end] = block
        self.length = end

    def copy_from(self, other: "WorkingKv", tokens: int) -> None:
        """Copy the first tokens of another sequence, beyond those that are here."""
        self._tensor[:, :, :, self.length : tokens] = other.part(self.length, tokens)
        self.length = tokens

    def part(self, start: int, end: int) -> torch.Tensor:
        """Return the keys and values of some tokens: a view, valid while nothing is written."""
        return self._tensor[:, :, :, start:end]

    def blocks(self, first: int, end: int, block_tokens: int) -> list[torch.Tensor]:
        """Return copies of blocks by number, each a tensor of its own."""
        return [
            self.part(number * block_tokens, (number + 1) * block_tokens).clone(
                memory_format=torch.contiguous_format
            )
            for number in range(first, end)
        ]

    def begin(self, start: int, *, seen: int | None = None) -> None:
        """Let the next call of the model write from ``start`` on.

        Args:
            start: Where its first token stands.
            seen: Let it see keys up to there, masked or not; without it, up to its own.
        """
        self._start = start
        self._seen = seen or 0

    @property
    def start(self) -> int:
        """Where the first token of the next call stands."""
        return self._start

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[Any, Any]:
        """Take a layer's ``[1, H, tokens, D]``; return all that its queries see."""
        kept = self._tensor[layer]
        end = self._start + keys.shape[2]
        kept[0, :, self._start : end] = keys[0]
        kept[1, :, self._start : end] = values[0]
        seen = self._seen or end
        return kept[0:1, :, :seen], kept[1:2, :, :seen]


class _Layer(DynamicLayer):  # type: ignore[misc]  # transformers' types are not read
    """A layer as transformers asks for it."""

    def __init__(self, working: WorkingKv, number: int) -> None:
        super().__init__()
        self._working = working
        self._number = number
        self.is_initialized = True

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *_: object,
        **__: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._working.write(self._number, key_states, value_states)

    def get_seq_length(self) -> int:
        return self._working.start

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._working.start + query_length, 0


def whole_spans(tokens: int) -> int:
    """Return ``tokens``, rounded up to whole spans."""
    return -(-tokens // SPAN_TOKENS) * SPAN_TOKENS
