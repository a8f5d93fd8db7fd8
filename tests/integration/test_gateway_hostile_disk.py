"""The disk is full, cannot be written to, is broken or held up: requests are answered all the same.

What the disk store makes of it has tests of its own.
"""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from support.gateway import Answer, Gateway, StartGateway, running_gateway
from support.metrics import reaches, total
from support.mount import mount

from stepwell.assembly.checks import shortages
from stepwell.cli.main import main
from stepwell.testing.fake_upstream import FakeUpstream, Script

STORE = Path("entries") / "entries-v2.sqlite"


async def assert_all_is_well(gateway: Gateway, first: int, last: int) -> list[Answer]:
    """Check that new questions are answered, and repeats from memory at least."""
    answers = []
    for number in range(first, last):
        text = f"question {number}"
        answer = await gateway.ask(text, model="wordy")
        repeat = await gateway.ask(text, model="wordy")
        assert (answer.status, answer.headers["x-cache"]) == (200, "MISS")
        assert (repeat.headers["x-cache"], repeat.body) == ("HIT", answer.body)
        answers.append(answer)
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await gateway.get(path)).status == 200
    assert (await gateway.get("/admin/stats")).status in {200, 503}
    return answers


async def test_a_full_disk(small_disk: Path, upstream: FakeUpstream) -> None:
    """Answers go on, the metrics tell of it, and once there is room all is as before."""
    upstream.scripts["wordy"] = Script(words=2_000)
    data = small_disk / "data"
    async with running_gateway(data, upstream.base_url) as gateway:
        await assert_all_is_well(gateway, 0, 150)
        await reaches(gateway, "stepwell_failures_total", 1, component="store.disk")
        await asyncio.to_thread(mount, "-o", "remount,size=24m", str(small_disk))
        await assert_all_is_well(gateway, 150, 160)
    async with running_gateway(data, upstream.base_url) as gateway:
        assert (await gateway.ask("question 159", model="wordy")).headers["x-cache"] == "HIT"


def use_up(place: Path) -> Path:
    """Leave no byte free on the file system of ``place``; return the file that has them all."""
    filler = place / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


async def test_a_start_on_a_full_disk(
    small_disk: Path, tmp_path: Path, upstream: FakeUpstream, capsys: pytest.CaptureFixture[str]
) -> None:
    """It answers from memory, says so, and has its disk back as soon as there is room."""
    await asyncio.to_thread(mount, "-o", "remount,size=8m", str(small_disk))
    upstream.scripts["wordy"] = Script(words=20)
    data = small_disk / "data"
    async with running_gateway(data, upstream.base_url) as gateway:
        await assert_all_is_well(gateway, 0, 3)
    filler = await asyncio.to_thread(use_up, small_disk)
    assert len(list(shortages(data))) == 1
    async with running_gateway(data, upstream.base_url) as gateway:
        await reaches(gateway, "stepwell_failures_total", 1, component="store.disk")
        await assert_all_is_well(gateway, 0, 6)
        settings = tmp_path / "stepwell.toml"
        await asyncio.to_thread(settings.write_text, f'data_dir = "{data}"')
        assert await asyncio.to_thread(main, ["stats", "--config", str(settings)]) == 2
        assert "its disk is full" in capsys.readouterr().err
        await asyncio.to_thread(filler.unlink)
        assert list(shortages(data)) == []
        await assert_all_is_well(gateway, 6, 9)
    async with running_gateway(data, upstream.base_url) as gateway:
        answers = [await gateway.ask(f"question {number}", model="wordy") for number in (2, 6, 8)]
        assert [answer.headers["x-cache"] for answer in answers] == ["HIT"] * 3


def overwrite(path: Path) -> None:
    """Overwrite a file with nonsense from another process, as any other program would."""
    script = (
        "import os, sys; size = os.path.getsize(sys.argv[1])\n"
        "with open(sys.argv[1], 'r+b') as file: file.write(b'nonsense' * (size // 8 + 1))"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)


@pytest.mark.parametrize("when", ["running", "stopped"])
async def test_a_broken_store(
    start_gateway: StartGateway, upstream: FakeUpstream, tmp_path: Path, when: str
) -> None:
    """What is lost is asked anew, what is there is right, and the metrics tell of it."""
    file = tmp_path / "data" / STORE
    async with start_gateway() as gateway:
        await assert_all_is_well(gateway, 0, 3)
        if when == "running":
            await asyncio.to_thread(overwrite, file)
            await assert_all_is_well(gateway, 3, 6)
    if when == "stopped":
        await asyncio.to_thread(overwrite, file)
    async with start_gateway() as gateway:
        for number in range(3):
            answer = await gateway.ask(f"question {number}", model="wordy")
            assert f"echo: question {number}".encode() in answer.body
        await assert_all_is_well(gateway, 6, 9)
        if when == "stopped":
            # A running store has all that matters in its log, and mends the file from there.
            assert upstream.call_count == 9
            assert await total(gateway, "stepwell_failures_total", component="store.disk") == 1
    async with start_gateway() as gateway:
        assert (await gateway.ask("question 8", model="wordy")).headers["x-cache"] == "HIT"


async def test_a_store_that_is_taken_away(
    start_gateway: StartGateway, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Somebody removes the data directory under a running gateway."""
    async with start_gateway() as gateway:
        await assert_all_is_well(gateway, 0, 3)
        await asyncio.to_thread(shutil.rmtree, tmp_path / "data")
        await assert_all_is_well(gateway, 3, 6)
    async with start_gateway() as gateway:
        await assert_all_is_well(gateway, 6, 9)


@asynccontextmanager
async def held(file: Path) -> AsyncIterator[None]:
    """Let another process hold the store's write lock."""
    script = (
        "import sqlite3, sys; connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(file)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        await process.communicate(b"")


async def test_a_store_that_is_held_up(
    start_gateway: StartGateway, upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Nobody waits for it; what could not be written meanwhile is written or asked again."""
    async with start_gateway() as gateway:
        await assert_all_is_well(gateway, 0, 3)
        async with held(tmp_path / "data" / STORE):
            await assert_all_is_well(gateway, 3, 6)
        await assert_all_is_well(gateway, 6, 9)
    async with start_gateway() as gateway:
        for number in range(9):
            answer = await gateway.ask(f"question {number}", model="wordy")
            assert f"echo: question {number}".encode() in answer.body


async def test_configurations_that_share_a_store_share_what_means_the_same(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Another revision of the model shares nothing; a shorter life holds for its own callers."""
    fake = {"base_url": upstream.base_url}
    async with (
        start_gateway() as plain,
        start_gateway(upstreams={"fake": {**fake, "revision": "2"}}) as revised,
        start_gateway(upstreams={"renamed": fake}, stores={"disk": {"max_bytes": 1 << 20}}) as same,
        start_gateway(classes={"general": {"ttl_seconds": 0.001}}) as hasty,
        start_gateway(classes={"general": {"ttl_seconds": 0}}) as without,
    ):
        seen = []
        for gateway in (plain, revised, same, hasty, without):
            seen.append((await gateway.ask("hi")).headers["x-cache"])
            await gateway.settle()
        assert seen == ["MISS", "MISS", "HIT", "MISS", "BYPASS"]
        await assert_all_is_well(plain, 0, 3)
