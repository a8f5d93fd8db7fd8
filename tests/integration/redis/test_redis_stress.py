"""Many processes at random work in one store: nothing is lost, and nothing comes back."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from meta.repository import ROOT

SECONDS = "3"


def stress(out: Path, *options: str) -> dict[str, Any]:
    """Run the benchmark for a moment; return what it found."""
    program = (sys.executable, "benchmarks/redis_stress.py")
    subprocess.run(
        [*program, "--seconds", SECONDS, "--json", str(out), *options],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    results: dict[str, Any] = json.loads(out.read_text())["results"]
    return results


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [(), ("--faults", "on"), ("--store", "disk")],
    ids=["redis", "a failing redis", "disk"],
)
def test_stress(tmp_path: Path, options: tuple[str, ...]) -> None:
    """No answer is lost, resurrected or outdated; in the end all counts are equal."""
    results = stress(tmp_path / "out.json", *options)
    for many in ("gets", "hits", "puts_stored", "removals"):
        assert results[many] > 50, many
    assert [results[fault] for fault in ("lost", "resurrected", "outdated")] == [0, 0, 0]
    end = results["end"]
    assert end["found"] == end["counted"] == end["removed"]
    assert end["left"] == 0
    if "--faults" not in options:
        unknown = ("gets_unanswered", "puts_unknown", "removals_unknown")
        assert [results[count] for count in unknown] == [0, 0, 0]
