"""Child processes of the tests of this directory."""

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def children_find_support(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a child import `support`, as the tests do."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
