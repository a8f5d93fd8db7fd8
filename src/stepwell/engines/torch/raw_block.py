"""KV blocks as bytes, as they stand on disk."""

import torch

from stepwell.engines.torch.kv_shape import KvShape


def block_bytes(block: torch.Tensor) -> memoryview:
    """Return a block's bytes without copying them: values in C order, of this machine."""
    flat = block.contiguous().view(torch.uint8).reshape(-1)
    return memoryview(flat.numpy().data)


def block_of(content: memoryview, shape: KvShape, block_tokens: int) -> torch.Tensor | None:
    """Return the block that ``content`` holds, a view of it; ``None`` if it is of another size.

    The memory must be writable, as torch wants it, and nobody else's.
    """
    if len(content) != shape.token_bytes * block_tokens:
        return None
    return torch.frombuffer(content, dtype=shape.dtype).view(shape.of(block_tokens))
