"""What the keys and values of a model's tokens take."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class KvShape:
    """Keys and values of one token: ``[layers, 2, heads, head_size]``; keys come first."""

    layers: int
    heads: int
    head_size: int
    dtype: torch.dtype

    @property
    def token_bytes(self) -> int:
        """What one token takes."""
        return self.layers * 2 * self.heads * self.head_size * self.dtype.itemsize

    def of(self, tokens: int) -> tuple[int, int, int, int, int]:
        """Return the shape of some tokens' keys and values: ``[L, 2, H, tokens, D]``."""
        return self.layers, 2, self.heads, tokens, self.head_size

    @property
    def text(self) -> str:
        """The shape in words, as it is written into files of blocks."""
        name = str(self.dtype).removeprefix("torch.")
        return f"[{self.layers},2,{self.heads},tokens,{self.head_size}] {name}"
