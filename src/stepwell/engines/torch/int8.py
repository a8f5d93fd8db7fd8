"""KV blocks in int8: a smaller form that loses a little precision."""

from dataclasses import dataclass

import torch

_LARGEST = 127.0


@dataclass(frozen=True, slots=True)
class Int8Block:
    """A block, each row of a token and head divided by its largest value."""

    codes: torch.Tensor
    """``[L, 2, H, tokens, D]`` in int8."""
    scales: torch.Tensor
    """``[L, 2, H, tokens, 1]``, in bfloat16 for its range; already divided by 127."""

    @property
    def nbytes(self) -> int:
        """Memory it takes."""
        return self.codes.nbytes + self.scales.nbytes


def int8_token_bytes(layers: int, heads: int, head_size: int) -> int:
    """Return what a token takes in this form."""
    return layers * 2 * heads * (head_size + torch.bfloat16.itemsize)


def pack_int8(block: torch.Tensor) -> Int8Block:
    """Return ``block``, ``[L, 2, H, tokens, D]``, in int8.

    One scale for each token, head, and keys or values: finer groups are hardly nearer
    (design/0009-prefix.md). Costs about a microsecond for a token and layer.
    """
    largest = block.abs().amax(dim=-1, keepdim=True).to(torch.float32)
    scales = (largest / _LARGEST).to(torch.bfloat16)
    # Divided by the scale as it is kept, so that rounding it costs little. The smallest divisor is
    # there for rows of noughts.
    divisor = scales.to(torch.float32).clamp_min(torch.finfo(torch.float32).tiny)
    codes = (block.to(torch.float32) / divisor).round_().clamp_(-_LARGEST, _LARGEST)
    return Int8Block(codes.to(torch.int8), scales)


def unpack_int8(packed: Int8Block, dtype: torch.dtype) -> torch.Tensor:
    """Return the block to compute with, in a tensor of its own."""
    return packed.codes.to(dtype).mul_(packed.scales.to(dtype))
