"""What one tenant's KV blocks may take of the shelves."""

from array import array
from pathlib import Path

import pytest
import torch

from stepwell.assembly.torch_cache import make_cache
from stepwell.core.kv import KvScope, Tokens
from stepwell.core.names import Namespace
from stepwell.engines.torch.kv_shape import KvShape
from stepwell.engines.torch.process import TorchSettings
from stepwell.testing.clock import HandClock

SHAPE = KvShape(layers=1, heads=1, head_size=4, dtype=torch.float32)
BLOCK = 16
PROMPT_BLOCKS = 8
BLOCK_BYTES = SHAPE.token_bytes * BLOCK


def scope(tenant: int) -> KvScope:
    return KvScope("m", "d", "t", "f", tenant=Namespace(bytes([tenant]) * 16))


def prompt(number: int) -> Tokens:
    return Tokens(array("i", range(number * 1000, number * 1000 + PROMPT_BLOCKS * BLOCK)).tobytes())


@pytest.mark.parametrize(("share", "left"), [(1.0, 0), (0.5, PROMPT_BLOCKS)])
def test_a_tenant_that_asks_much(share: float, left: int, tmp_path: Path) -> None:
    """Within its share it pushes out its own blocks; without one, another's."""
    settings = TorchSettings(
        weights="",
        model="m",
        cache="",
        kv_folder=str(tmp_path),
        memory_bytes=2 * PROMPT_BLOCKS * BLOCK_BYTES,
        disk_bytes=0,
        tenant_share=share,
    )
    cache, _ = make_cache(settings, SHAPE, HandClock())
    block = torch.zeros(SHAPE.of(BLOCK))

    def keep(tenant: int, number: int) -> None:
        for _ in range(2):  # the second time, it is let in whatever is there
            cache.keep(
                scope(tenant),
                prompt(number),
                lambda start, end: [block] * (end - start),
                prompt_tokens=PROMPT_BLOCKS * BLOCK,
                seconds_per_token=1.0,
            )

    with cache:
        keep(1, 0)
        for number in range(1, 20):
            keep(2, number)
        asked = Tokens(prompt(0) + array("i", [7]).tobytes())
        lease = cache.lease(scope(1), asked)
        assert lease.matched_tokens == left * BLOCK
        lease.release()
