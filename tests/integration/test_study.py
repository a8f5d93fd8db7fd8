"""The study with the embedder that comes along, and the safety valve."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.embedder


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stepwell.cli.main", *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if name != "STEPWELL_CONFIG"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_pairs_of_two_languages(tmp_path: Path) -> None:
    """Other words hit; another subject, nothing, and too much of it do not."""
    pairs = [
        ("How do I reset my password?", "How can I reset my password?"),
        ("怎么重置密码？", "如何重置密码？"),
        ("如何提高信用额度？", "如何降低信用额度？"),
        ("How do I reset my password?", "When does the museum open on Sundays?"),
        ("How do I reset my password?", ""),
        ("How do I reset my password?", "word " * 5_000),
    ]
    file, out = tmp_path / "pairs", tmp_path / "out"
    file.write_text("".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in pairs))
    done = run("pairs", file, "--level", "faq", "--out", out)
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["hit"] for row in told] == [True, True, False, False, False, False]
    refused = [row["refused_by"] for row in told[2:]]
    assert refused == ["antonym", "similarity", "empty", "over-window"]
    assert [row["similarity"] for row in told[4:]] == [0.0, 0.0]


def test_a_signal_leaves_nothing_behind(tmp_path: Path) -> None:
    """The old result stays, and no half of a new one is beside it."""
    out = tmp_path / "out"
    out.write_text("old")
    command = [sys.executable, "-m", "stepwell.cli.main", "pairs", "-", "--out", str(out)]
    with subprocess.Popen(
        command,
        env={name: value for name, value in os.environ.items() if name != "STEPWELL_CONFIG"},
        stdin=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        running.stdin.write(b'{"a": "x", "b": "y"}\n')
        running.stdin.flush()
        # It begins to write, and waits for more to read.
        while len(list(tmp_path.iterdir())) == 1:
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert out.read_text() == "old"


def test_a_log_by_meaning(tmp_path: Path) -> None:
    log, figures = tmp_path / "log", tmp_path / "figures.json"
    log.write_text("How do I reset my password?\nHow can I reset my password?\n你好\n")
    done = run("analyze", log, "--json", figures)
    assert done.returncode == 0, done.stderr
    told = json.loads(figures.read_text())
    assert told["caches"]["faq"]["semantic"]["requests"] == 1
    assert told["run"]["texts_embedded"] == 3


def test_levels_for_an_embedder_that_compares_nothing(tmp_path: Path) -> None:
    """No pair is left out because the comparison is asked of a model that has none."""
    file, settings = tmp_path / "labels", tmp_path / "english.toml"
    row = {"a": "How do I reset my password?", "b": "How can I reset my password?", "label": 1}
    file.write_text(json.dumps(row) + "\n")
    settings.write_text('[semantic]\nembedder = "english"\n')
    done = run("tune", file, "--json", "--config", settings)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["pairs"], told["left_out"]) == (1, {})
