"""The process environment."""

import os
import subprocess
import sys

import pytest

from stepwell.assembly.environment import compute_on_one_thread

VARIABLE = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_products_are_computed_on_one_thread(
    monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    """Unless the operator wants it otherwise."""
    monkeypatch.setenv(VARIABLE, given or "")
    if given is None:
        monkeypatch.delenv(VARIABLE)
    compute_on_one_thread()
    assert os.environ[VARIABLE] == expected


def test_numpy_is_not_loaded_before_serving_begins() -> None:
    """Or the number of its threads would be settled."""
    script = """
import sys
import stepwell.assembly.serve, stepwell.cli.main, stepwell.cli.options
print("numpy" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout == "False\n"
