"""What all tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

EXACT_ONLY = Path(__file__).parent / "data" / "exact_only.toml"


settings.register_profile("stepwell", deadline=None)
"""How long an example takes says more of the machine than of the code."""

settings.load_profile("stepwell")


@pytest.fixture(autouse=True, scope="session")
def _exact_only() -> Iterator[None]:
    """Let commands read settings without the semantic layer, unless they are given a file."""
    os.environ["STEPWELL_CONFIG"] = str(EXACT_ONLY)
    yield
    del os.environ["STEPWELL_CONFIG"]
