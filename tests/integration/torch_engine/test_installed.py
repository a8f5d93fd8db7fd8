"""Whether the torch engine can be tested at all."""

import importlib.metadata
from pathlib import Path

import pytest
from integration.torch_engine.conftest import HAS_TORCH

PINNED = Path(__file__).parents[3] / "requirements" / "torch.txt"


@pytest.mark.skipif(not HAS_TORCH, reason="the torch engine is not installed (scripts/setup)")
def test_torch_engine_is_the_pinned_one() -> None:
    """What the tests of this directory say, they say of these versions."""
    lines = [line.split(";")[0].strip() for line in PINNED.read_text().splitlines()]
    for name, _, version in (line.partition("==") for line in lines if "==" in line):
        installed = importlib.metadata.version(name).partition("+")[0]
        assert (name, installed) == (name, version)
