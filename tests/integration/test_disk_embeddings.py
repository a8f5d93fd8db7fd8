"""Vectors on disk: bounded, shared, killed, damaged."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.embedding_stores import make_items

from stepwell.core.clock import Clock
from stepwell.core.embedding import ContentDigest, Deletions, VectorKind
from stepwell.core.errors import StoreFull, VersionTaken
from stepwell.core.events import Degraded, Event
from stepwell.stores.disk.embeddings.schema import NAME
from stepwell.stores.disk.embeddings.store import DiskEmbeddings
from stepwell.testing.clock import HandClock
from stepwell.testing.embedding_contract import make_digest

KIND = VectorKind("here", "small")
VERSION = KIND.version
NONE = Deletions(0)
DAY = 86_400.0


class Recorder:
    """Keeps what was told."""

    def __init__(self) -> None:
        self.degraded: list[str] = []

    def emit(self, event: Event) -> None:
        """Keep ``event``."""
        assert isinstance(event, Degraded)
        assert event.component == "embeddings.disk"
        self.degraded.append(event.error)


async def open_disk(
    directory: Path,
    *,
    max_bytes: int = 2**24,
    clock: Clock | None = None,
    events: Recorder | None = None,
    **settings: Any,
) -> DiskEmbeddings:
    store = await DiskEmbeddings.open(
        directory,
        max_bytes=max_bytes,
        clock=clock or HandClock(),
        events=events or Recorder(),
        timeout_seconds=30.0,
        **settings,
    )
    await store.register(KIND, at_most=5)
    return store


async def test_what_was_used_longest_ago_leaves_first(tmp_path: Path) -> None:
    """The file stays within its bound; what was read yesterday goes before what is read today."""
    clock = HandClock(100 * DAY)
    store = await open_disk(tmp_path, max_bytes=2**20, clock=clock)
    async with aclosing(store):
        old = make_items(100, beginning="old", size_bytes=4_000)
        await store.put(VERSION, old, NONE)
        clock.seconds += DAY
        kept = [item.digest for item in old[:50]]
        store.touch(VERSION, kept)
        await store._uses.aclose()
        new = make_items(150, beginning="new", size_bytes=4_000)
        for at in range(0, 150, 10):
            await store.put(VERSION, new[at : at + 10], NONE)
        (figures,) = await store.versions()
        assert figures.bytes <= 2**20
        assert 200 < figures.vectors < 250
        found = (await store.get(VERSION, [item.digest for item in (*old, *new)])).values
        assert len(found) == figures.vectors
        assert found.keys() >= {*kept, *(item.digest for item in new)}


async def test_a_retired_version_goes_by_and_by(tmp_path: Path) -> None:
    """It is not found from the first moment; its rows go in pauses, and the file gets smaller."""
    store = await open_disk(tmp_path, poll_seconds=0.05)
    async with aclosing(store):
        items = make_items(2_500, size_bytes=1_000)
        await store.put(VERSION, items, NONE)
        await store.retire(VERSION)
        assert not (await store.get(VERSION, [items[0].digest])).values
        await store.register(KIND, at_most=1)
        now = (await store.get(VERSION, [])).deletions
        assert set(await store.put(VERSION, items[:3], NONE)) == {it.digest for it in items[:3]}
        assert not await store.put(VERSION, items[:3], now)
        async with asyncio.timeout(30):
            while await rows(store) > 3:  # noqa: ASYNC110  (nobody tells)
                await asyncio.sleep(0.02)
        assert len((await store.get(VERSION, [item.digest for item in items])).values) == 3


async def rows(store: DiskEmbeddings) -> int:
    def count(connection: Any) -> int:
        (found,) = connection.execute("SELECT count(*) FROM contents").fetchone()
        return int(found)

    return await store._write(count)


async def test_two_kinds_never_share_a_version(tmp_path: Path) -> None:
    """Nor are there more versions than may be."""

    class Impostor(VectorKind):
        version = VERSION  # as if 48 bits were equal

    async with aclosing(await open_disk(tmp_path)) as store:
        with pytest.raises(VersionTaken):
            await store.register(Impostor("elsewhere", "small"), at_most=5)
        with pytest.raises(StoreFull, match="retire one"):
            await store.register(VectorKind("here", "other"), at_most=1)


async def test_old_deletions_are_forgotten_and_old_writers_refused(tmp_path: Path) -> None:
    """Who began before the oldest deletion that is known may write nothing at all."""
    clock = HandClock()
    first, second, third = make_items(3)
    async with aclosing(await open_disk(tmp_path, clock=clock)) as store:
        began = (await store.get(VERSION, [])).deletions
        await store.delete(VERSION, [first.digest])
        clock.seconds += 2 * 3_600
        await store.delete(VERSION, [second.digest])
        assert list(await store.deleted(VERSION, 10)) == [second.digest]
        assert list(await store.put(VERSION, [third], began)) == [third.digest]
        now = (await store.get(VERSION, [])).deletions
        assert not await store.put(VERSION, [first, second, third], now)


async def test_claims_end_by_themselves(tmp_path: Path) -> None:
    """A process that died holds nothing for long."""
    clock = HandClock()
    one, other = await open_disk(tmp_path, clock=clock), await open_disk(tmp_path, clock=clock)
    digest = make_digest("x")
    assert list(await one.claim(VERSION, [digest], 1_000)) == [digest]
    assert not await other.claim(VERSION, [digest], 1_000)
    clock.seconds += 1.1
    assert list(await other.claim(VERSION, [digest], 1_000)) == [digest]
    await one.release(VERSION, [digest])
    assert not await one.claim(VERSION, [digest], 1_000)
    await one.aclose()
    await other.aclose()


_WRITER = """
import asyncio, sys
from pathlib import Path
from integration.test_disk_embeddings import VERSION, NONE, make_items, open_disk

async def main():
    store = await open_disk(Path(sys.argv[1]))
    for number in range(100_000):
        items = make_items(10, beginning=f"batch {number}", size_bytes=2_000)
        await store.put(VERSION, items, NONE)
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """And another process that has the file open goes on."""
    store = await open_disk(tmp_path / "data", max_bytes=2**28)
    path = os.pathsep.join(sys.path)
    for _ in range(3):
        with subprocess.Popen(  # noqa: ASYNC220  (it is killed)
            [sys.executable, "-c", textwrap.dedent(_WRITER), str(tmp_path / "data")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        ) as writer:
            assert writer.stdout is not None
            last = -1
            while last < 20:
                last = int(await asyncio.to_thread(writer.stdout.readline))
            writer.send_signal(signal.SIGKILL)
            last = max([last, *map(int, writer.stdout.read().split())])
        digests = [
            it.digest for n in range(last + 1) for it in make_items(10, beginning=f"batch {n}")
        ]
        found = (await store.get(VERSION, digests)).values
        assert found.keys() == set(digests)
    await store.aclose()
    async with aclosing(await open_disk(tmp_path / "data", max_bytes=2**28)) as store:
        assert (await store.get(VERSION, digests)).values == found


@pytest.mark.parametrize("seed", range(6))
async def test_damage_costs_what_was_there(tmp_path: Path, seed: int) -> None:
    """Never a wrong vector: the file is moved aside and said so, or the flipped bytes are read."""
    items = make_items(200, size_bytes=1_000)
    values: dict[ContentDigest, bytes] = {item.digest: item.value for item in items}
    await put_and_close(tmp_path, items)
    file, draw = tmp_path / f"{NAME}.sqlite", random.Random(seed)
    damaged = bytearray(file.read_bytes())
    if seed == 0:
        damaged = bytearray(b"garbage" * 5_000)
    else:
        at = draw.randrange(0, len(damaged) - 4_096)
        damaged[at : at + 4_096] = draw.randbytes(4_096)
    file.write_bytes(damaged)
    events = Recorder()
    async with aclosing(await open_disk(tmp_path, events=events)) as store:
        found = (await store.get(VERSION, list(values))).values
        wrong = [digest for digest, value in found.items() if values.get(digest) != value]
        assert len(wrong) <= 10  # in the 4 KB that were overwritten; their CRC says so
        more = make_items(20, beginning="more", size_bytes=1_000)
        now = (await store.get(VERSION, [])).deletions
        if await store.put(VERSION, more, now):  # It was found now, and nothing is registered.
            await store.register(KIND, at_most=5)
            assert not await store.put(VERSION, more, Deletions(0))
        assert len((await store.get(VERSION, [item.digest for item in more])).values) == 20
    moved = list(tmp_path.glob("*.corrupt-*"))  # noqa: ASYNC240  (a test's own directory)
    assert bool(moved) == bool(events.degraded)
    if seed == 0:
        assert moved


async def put_and_close(directory: Path, items: Any) -> None:
    async with aclosing(await open_disk(directory)) as store:
        await store.put(VERSION, items, NONE)
