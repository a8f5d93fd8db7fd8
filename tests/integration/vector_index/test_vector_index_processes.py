"""Several processes share an index directory, and any of them may be killed at any moment."""

import asyncio
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from support.mount import mount
from support.points import (
    IDENTITY,
    Degradations,
    add_all,
    find,
    make_index,
    make_vectors,
    open_index,
    progress,
)
from support.vector_worker import BOUNDS

from stepwell.core.clock import SystemClock
from stepwell.core.names import Arrival, Position
from stepwell.semantic.index import merging
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.folder import Folder
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.merging import Job
from stepwell.testing.clock import HandClock

TESTS = Path(__file__).parents[2]
WORKER = TESTS / "support" / "vector_worker.py"


def start(*command: str) -> subprocess.Popen[str]:
    """Start a process that finds the tests' modules."""
    program = f"""
import runpy, sys
sys.path.insert(0, {str(TESTS)!r})
sys.argv = {list(command)!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def start_worker(directory: Path, first: int, count: int) -> subprocess.Popen[str]:
    """Start a worker that adds points from number ``first`` on."""
    return start(str(WORKER), str(directory), str(first), str(count))


async def all_found(index: VectorIndex, count: int) -> bool:
    """Return whether each point is found by its vector."""
    vectors = make_vectors(count)
    now = time.time()
    return all(find(index, vectors[n], now=now) == [str(n)] for n in range(count))


async def test_two_processes(tmp_path: Path) -> None:
    """Both write and merge; nothing is lost, and nobody complains."""
    workers = [start_worker(tmp_path, first, 400) for first in (0, 400)]
    outputs = [(await asyncio.to_thread(worker.communicate))[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    events = Degradations()
    index = await open_index(tmp_path, SystemClock(), events=events, bounds=BOUNDS)
    assert index.contents().points == 800
    async with asyncio.timeout(60):
        await index.maintain(Position(0))
        while index.is_merging:
            await asyncio.sleep(0.05)
            await index.maintain(Position(0))
    assert index.contents().segments < 8
    assert await all_found(index, 800)
    assert events.errors == []


async def test_a_worker_is_killed(tmp_path: Path) -> None:
    """Again and again: what it said is on disk is there, and nothing is damaged."""
    chance = random.Random(1)
    written = 0
    for _ in range(8):
        worker = start_worker(tmp_path, 0, 2_000)
        assert worker.stdout is not None
        for _ in range(chance.randrange(1, 25)):
            line = await asyncio.to_thread(worker.stdout.readline)
            if not line.strip().isdigit():
                break
            written = max(written, int(line))
        await asyncio.sleep(chance.random() * 0.1)
        worker.send_signal(signal.SIGKILL)
        await asyncio.to_thread(worker.communicate)
        events = Degradations()
        index = make_index(tmp_path, SystemClock(), events=events, bounds=BOUNDS)
        await index.refresh()
        assert events.errors == []
        assert index.contents().points >= written
        assert await all_found(index, written)
    assert written > 100


async def test_a_merge_is_killed(tmp_path: Path) -> None:
    """At any moment: the segments are those of before, or the merged one."""
    vectors = make_vectors(6_000)
    clock = HandClock()
    index = await open_index(tmp_path, clock)
    for part in range(3):
        numbers = range(part * 2_000, part * 2_000 + 2_000)
        add_all(index, [str(n) for n in numbers], vectors[part * 2_000 : part * 2_000 + 2_000])
        await index.flush(Position(0))
    folder = Folder(tmp_path, IDENTITY)
    chance = random.Random(2)
    killed = 0
    seconds = await _merge_seconds(tmp_path)
    for attempt in range(12):
        before = folder.usable_manifest()
        names = tuple(segment.name for segment in before.segments)
        process = _start_merge(tmp_path, names)
        await asyncio.sleep(seconds * (attempt + chance.random()) / 12)
        process.kill()
        await asyncio.to_thread(process.communicate)
        after = folder.usable_manifest()
        assert after == before or len(after.segments) == 1
        killed += after == before
        events = Degradations()
        again = await open_index(tmp_path, clock, events=events, bounds=Bounds(nprobe=1_000))
        assert events.errors == []
        assert again.contents().points == 6_000
        assert find(again, vectors[4_321]) == ["4321"]
    assert killed > 0
    names = tuple(segment.name for segment in folder.usable_manifest().segments)
    assert merging.run(Job(str(tmp_path), IDENTITY, names, 1_000, 0.0))
    assert _leftovers(tmp_path) == []


def _leftovers(directory: Path) -> list[Path]:
    return [path for path in directory.glob("merge-*") if path.is_dir()]


async def _merge_seconds(directory: Path) -> float:
    """Return how long a merge takes here; this one leaves nothing behind."""
    started = time.monotonic()
    process = _start_merge(directory, ("0" * 32,))
    await asyncio.to_thread(process.communicate)
    assert process.returncode == merging.EXIT_BUSY
    return 3 * (time.monotonic() - started)


def _start_merge(directory: Path, names: tuple[str, ...]) -> subprocess.Popen[bytes]:
    job = msgspec.json.encode(Job(str(directory), IDENTITY, names, 1_000, 0.0)).decode()
    return subprocess.Popen(
        [sys.executable, "-P", "-m", merging.__name__, job], stdout=subprocess.PIPE
    )


async def test_only_one_merges(tmp_path: Path) -> None:
    """Whoever comes second leaves it at that."""
    index = await open_index(tmp_path, HandClock())
    add_all(index, ["0"], make_vectors(1))
    await index.flush(Position(0))
    folder = Folder(tmp_path, IDENTITY)
    names = tuple(segment.name for segment in folder.usable_manifest().segments)
    with folder.merging():
        assert folder.is_merging()
        process = _start_merge(tmp_path, names)
        await asyncio.to_thread(process.communicate)
        assert process.returncode == merging.EXIT_BUSY
    assert not folder.is_merging()


async def test_a_full_disk(small_disk: Path) -> None:
    """Searches and adds go on; it is told; and once there is room, all is written."""
    directory = small_disk / "index"
    clock = HandClock()
    events = Degradations()
    vectors = make_vectors(20_000)
    index = await open_index(
        directory, clock, events=events, bounds=Bounds(delta_points=20_000, fan=100)
    )
    add_all(index, [str(n) for n in range(9_000)], vectors[:9_000])
    assert await index.flush(Position(1), Arrival(9_000))
    add_all(index, [str(n) for n in range(9_000, 20_000)], vectors[9_000:])
    generation = index.contents().generation
    assert not await index.flush(Position(2), Arrival(20_000))
    assert "No space left" in events.errors[0]
    assert index.contents().generation == generation
    assert index.contents().points == 20_000
    assert find(index, vectors[4_001]) + find(index, vectors[19_000]) == ["4001", "19000"]
    names = tuple(s.name for s in Folder(directory, IDENTITY).usable_manifest().segments)
    with pytest.raises(OSError, match="No space left"):
        merging.run(Job(str(directory), IDENTITY, (*names,), 100, 0.0))
    again = make_index(directory, clock, events=events)
    await again.refresh()
    assert again.contents().points == 9_000
    assert again.gap is not None
    assert again.gap.after == progress(1, 9_000)
    await asyncio.to_thread(mount, "-o", "remount,size=30m", str(small_disk))
    assert await index.flush(Position(2), Arrival(20_000))
    assert len(events.errors) == 1
    await again.refresh()
    assert again.contents().points == 20_000


async def test_a_merge_that_fails_is_told(tmp_path: Path) -> None:
    """And is not tried again at once."""
    clock = HandClock()
    events = Degradations()
    vectors = make_vectors(40)
    index = await open_index(tmp_path, clock, events=events, bounds=Bounds(fan=2))
    for part in range(2):
        add_all(index, [str(part)], vectors[part : part + 1])
        await index.flush(Position(0))
    (tmp_path / "merge.lock").unlink(missing_ok=True)
    (tmp_path / "merge.lock").mkdir()
    await index.maintain(Position(0))
    await index.maintain(Position(0))
    assert len(events.errors) == 1
    assert "merge" in events.errors[0]
    (tmp_path / "merge.lock").rmdir()
    clock.seconds += 1.0
    async with asyncio.timeout(60):
        await index.maintain(Position(0))
        while index.is_merging:
            await asyncio.sleep(0.05)
            await index.maintain(Position(0))
    assert index.contents().segments == 1
    assert len(events.errors) == 1
