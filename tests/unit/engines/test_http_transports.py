"""Which client carries which scheme."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from stepwell.engines.http import HttpUpstream

HttpUpstream("main", "{scheme}://127.0.0.1:1/v1", identity="", events=None)
print("aiohttp" in sys.modules)
"""


@pytest.mark.parametrize(("scheme", "loaded"), [("http", "False"), ("https", "True")])
def test_aiohttp_is_loaded_for_https_only(scheme: str, loaded: str) -> None:
    """A gateway whose model servers are near does without it, and its memory."""
    program = PROGRAM.format(scheme=scheme)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True
    )
    assert (done.stdout.strip(), done.stderr) == (loaded, "")
