"""The vLLM connector's both sides where the disk is full, or other servers write there, too."""

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from support.vllm_engine import BASE, Engine, Outcome

from stepwell.stores.kv.format import parse

PROMPT = list(range(100, 141))
"""Ten blocks and a token."""


def outcomes(engine: Engine) -> Counter[str]:
    """Return what became of the blocks that were written."""
    return Counter(
        {
            name: number
            for name, number in engine.workers[0].counted().items()
            if name.startswith("write_") and number
        }
    )


def until_tried(engine: Engine, blocks: int) -> None:
    deadline = time.monotonic() + 10.0
    while outcomes(engine).total() < blocks:
        assert time.monotonic() < deadline, outcomes(engine)
        time.sleep(0.005)


def fill_up(disk: Path, *, left_bytes: int) -> Path:
    """Take all room on ``disk`` but ``left_bytes``."""
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - left_bytes))
    return ballast


def test_disk_gets_full(small_disk: Path) -> None:
    """Answers go on; what did fit is used; and with room again, the rest is saved."""
    engine = Engine(small_disk)
    # Folders and files take a page of 4 KB each.
    ballast = fill_up(small_disk, left_bytes=8 * 4096)
    assert engine.run(PROMPT) == Outcome(0, pages_right=True)
    until_tried(engine, 10)
    tried = outcomes(engine)
    assert tried["write_no_space"] > 0
    assert tried["write_no_space"] + tried["write_written"] == 10
    assert "No space left" in engine.files.take_last_error()
    kept = engine.run(PROMPT)
    assert kept.pages_right
    assert kept.loaded_tokens < 40
    engine.close()
    ballast.unlink()
    for least_tokens in (kept.loaded_tokens, 40):
        engine = Engine(small_disk)
        outcome = engine.run(PROMPT)
        assert outcome.pages_right
        assert outcome.loaded_tokens >= least_tokens
        engine.close()


def test_two_servers_save_the_same(tmp_path: Path) -> None:
    """At the same time, over and over: each file is whole, none is written in vain or lost."""
    prompts = [[seed, *PROMPT] for seed in range(12)]

    def serve(engine: Engine) -> list[bool]:
        return [engine.run(prompt, range(6)).pages_right for prompt in prompts]

    engines = [Engine(tmp_path), Engine(tmp_path)]
    with ThreadPoolExecutor(2) as servers:
        assert all(all(right) for right in servers.map(serve, engines))
    for engine in engines:
        engine.close()
        assert outcomes(engine).keys() <= {"write_written", "write_present"}
        assert engine.workers[0].counted()["read_damaged"] == 0
    files = list(tmp_path.rglob("*.kv"))
    assert len(files) == 12 * 11
    for file in files:
        parse(file.read_bytes())
    third = Engine(tmp_path)
    for prompt in prompts:
        assert third.run(prompt) == Outcome(40, pages_right=True)
    third.close()


def test_another_model_under_the_same_name(tmp_path: Path) -> None:
    """Two servers whose weights differ share a folder and no block, whoever was first."""
    first = Engine(tmp_path)
    first.run(PROMPT)
    first.close()
    other = Engine(tmp_path, scope=replace(BASE, model="other weights"))
    assert other.run(PROMPT) == Outcome(0, pages_right=True)
    other.close()
    assert len(list(tmp_path.rglob("*.kv"))) == 20
    for scope in (BASE, replace(BASE, model="other weights")):
        again = Engine(tmp_path, scope=scope)
        assert again.run(PROMPT) == Outcome(40, pages_right=True)
        again.close()
