"""The disk store on a broken file: only misses, one fresh file, and everybody is told."""

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stepwell.core.changes import Lost
from stepwell.core.entry import Selector
from stepwell.core.errors import CorruptEntry
from stepwell.core.events import Degraded, Event, Evicted
from stepwell.core.names import Tier
from stepwell.stores.disk import entries
from stepwell.stores.disk.files import Files
from stepwell.stores.disk.store import DiskStore
from stepwell.stores.disk.writing import Write
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import make_entry, make_key, make_namespace

FILE = "entries-v2.sqlite"
ENTRIES = [make_entry(f"question {n}", body=bytes([n]) * 2_000, tags=(str(n),)) for n in range(60)]


class Recorder:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        """Keep ``event``."""
        self.events.append(event)

    def degraded(self) -> list[str]:
        return [event.error for event in self.events if isinstance(event, Degraded)]


async def open_store(
    directory: Path, events: Recorder | None = None, clock: HandClock | None = None
) -> DiskStore:
    return await DiskStore.open(
        directory,
        max_bytes=2**24,
        clock=clock or HandClock(),
        events=events or Recorder(),
        timeout_seconds=10.0,
        # No poll: what is asserted must not depend on it.
        poll_seconds=60.0,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a closed, sound store that holds `ENTRIES`."""
    directory = tmp_path_factory.mktemp("whole")

    async def fill() -> None:
        store = await open_store(directory)
        for entry in ENTRIES:
            await store.put(entry)
        await store.put(ENTRIES[0])
        await store.move_source(make_namespace("tenant"), "faq", "v1")
        await store.aclose()

    asyncio.run(fill())
    return directory


def overwrite_from_outside(path: Path) -> None:
    """Overwrite the file with garbage in another process, as any other program would.

    In this one, closing the file would drop the locks that SQLite holds on it.
    """
    script = "import sys, os; path = sys.argv[1]; size = os.path.getsize(path)\n"
    script += "with open(path, 'r+b') as file: file.write(b'x' * size)"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)


def corrupt_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.corrupt-*"))


async def check_only_misses(directory: Path) -> None:
    """Every answer is right or missing; and when all damage is found, the store is as new."""
    store = await open_store(directory)
    for entry in ENTRIES:
        try:
            assert await store.get(entry.key) in (entry, None)
        except CorruptEntry:
            assert await store.get(entry.key) in (entry, None)
    await store.source_values()
    # Each of these may come upon more of the damage, and give up what came before.
    rounds = [await keeps_its_promises(store) for _ in range(3)]
    assert rounds[-1]
    await store.aclose()


async def keeps_its_promises(store: DiskStore) -> bool:
    await store.read()
    kept, dropped = make_entry("kept"), make_entry("dropped", tags=("1",))
    stored = [await store.put(replace(entry, as_of=store.position())) for entry in (kept, dropped)]
    await store.invalidate(Selector(tag="1"))
    assert await store.count(Selector(tag="1")) == 0
    assert await store.get(dropped.key) is None
    return stored == [True, True] and await store.get(kept.key) is not None


@pytest.mark.parametrize("seed", range(30))
async def test_flipped_bytes(whole: Path, tmp_path: Path, seed: int) -> None:
    """Bytes flipped in the header, the schema or anywhere cost answers, and nothing else."""
    shutil.copytree(whole, tmp_path / "store")
    chance = random.Random(seed)
    path = tmp_path / "store" / FILE
    content = bytearray(path.read_bytes())
    reach = chance.choice((100, 8_192, len(content)))
    for _ in range(chance.choice((1, 10, 100, 1_000))):
        content[chance.randrange(reach)] ^= chance.randrange(1, 256)
    path.write_bytes(content)
    await check_only_misses(tmp_path / "store")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
async def test_truncated_file(whole: Path, tmp_path: Path, share: float) -> None:
    """A file that was cut short costs answers, and nothing else."""
    shutil.copytree(whole, tmp_path / "store")
    path = tmp_path / "store" / FILE
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    await check_only_misses(tmp_path / "store")


async def test_file_that_is_no_database(whole: Path, tmp_path: Path) -> None:
    """Garbage under the name is moved aside, a new file is made, and it is told once."""
    shutil.copytree(whole, tmp_path / "store")
    garbage = random.Random(0).randbytes(50_000)
    (tmp_path / "store" / FILE).write_bytes(garbage)
    events = Recorder()
    store = await open_store(tmp_path / "store", events)
    assert await store.get(ENTRIES[0].key) is None
    assert len(events.degraded()) == 1
    assert (tmp_path / "store" / f"{FILE}.corrupt-1000").read_bytes() == garbage
    await store.aclose()


async def test_database_of_another_program(tmp_path: Path) -> None:
    """A sound database with other tables is not ours: it is moved aside, not written to."""
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("CREATE TABLE entries (id INTEGER)")
    other.close()
    await check_only_misses(tmp_path)
    assert (tmp_path / f"{FILE}.corrupt-1000").exists()


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [
        pytest.param(b"id INTEGER PRIMARY KEY", b"id INTEGEQ PRIMARY KEY", id="other meaning"),
        pytest.param(b"id INTEGER PRIMARY KEY", b"id INTEGE\xff PRIMARY KEY", id="not text"),
        pytest.param(b"CREATE TABLE", b"CREATE TABL\xff", id="error that cannot be told"),
    ],
)
async def test_damaged_schema(whole: Path, tmp_path: Path, sound: bytes, damaged: bytes) -> None:
    """Tables that say something else than ours are not used, though SQLite may accept them."""
    shutil.copytree(whole, tmp_path / "store")
    path = tmp_path / "store" / FILE
    content = path.read_bytes()
    path.write_bytes(content.replace(sound, damaged))
    await check_only_misses(tmp_path / "store")
    assert corrupt_files(tmp_path / "store") == [f"{FILE}.corrupt-1000"]


async def test_header_that_forbids_writing(whole: Path, tmp_path: Path) -> None:
    """A file that is read-only by its damaged header alone is replaced."""
    shutil.copytree(whole, tmp_path / "store")
    path = tmp_path / "store" / FILE
    content = bytearray(path.read_bytes())
    content[18] = 3  # file format write version
    path.write_bytes(content)
    await check_only_misses(tmp_path / "store")


async def test_damage_before_any_change(tmp_path: Path) -> None:
    """Even if no change was ever announced everybody is told: one may have been made."""
    first, second = await open_store(tmp_path), await open_store(tmp_path)
    for entry in ENTRIES:
        await first.put(entry)
    overwrite_from_outside(tmp_path / FILE)
    overwrite_from_outside(tmp_path / f"{FILE}-wal")
    assert await first.get(ENTRIES[-1].key) is None
    assert second.behind()
    assert [type(change) for change in await second.read()] == [Lost]
    await first.aclose()
    await second.aclose()


async def test_file_emptied_while_it_is_open(tmp_path: Path) -> None:
    """Who opens an emptied file must not share its name with those that have the old one open."""
    first = await open_store(tmp_path)
    for entry in ENTRIES:
        await first.put(entry)
    os.truncate(tmp_path / FILE, 0)  # by its name: no descriptor of ours is closed
    late = await open_store(tmp_path)
    await late.put(make_entry("new", as_of=late.position()))
    assert await first.get(make_key("new")) is not None
    assert await first.put(make_entry("newer", as_of=late.position()))
    assert await late.get(make_key("newer")) is not None
    assert await late.count(Selector()) == 2
    await first.aclose()
    await late.aclose()


async def test_damage_while_it_is_open(tmp_path: Path) -> None:
    """One handle finds the damage, every handle goes on with the same new file and is told to
    rebuild what it derived; the one that never noticed closes without harming the new file."""
    events = Recorder()
    handles = [await open_store(tmp_path, events) for _ in range(3)]
    for entry in ENTRIES:
        await handles[0].put(entry)
    await handles[0].move_source(make_namespace("tenant"), "faq", "v1")
    for handle in handles:
        await handle.read()
    overwrite_from_outside(tmp_path / FILE)
    overwrite_from_outside(tmp_path / f"{FILE}-wal")

    # The first handle still has in memory what it wrote; the second must read.
    assert await handles[1].get(ENTRIES[-1].key) is None
    assert len(events.degraded()) == 1
    for handle in handles[:2]:
        assert handle.behind()
        assert [type(change) for change in await handle.read()] == [Lost]
        assert await handle.source_values() == {}
    assert await handles[0].put(make_entry("new", as_of=handles[0].position()))
    assert await handles[1].get(make_key("new")) is not None
    assert await handles[1].put(make_entry("newer", as_of=handles[1].position()))

    await handles[2].aclose()
    assert await handles[0].get(make_key("newer")) is not None
    late = await open_store(tmp_path)
    assert await late.count(Selector()) == 2
    assert len(events.degraded()) == 1
    for handle in (*handles, late):
        await handle.aclose()


async def test_answers_on_their_way_while_the_file_is_replaced(tmp_path: Path) -> None:
    """What was invalidated in the lost file stays invalidated in its successor."""
    store = await open_store(tmp_path)
    asked_at = store.position()
    await store.invalidate(Selector())
    await store.aclose()
    (tmp_path / FILE).write_bytes(b"garbage" * 1_000)
    store = await open_store(tmp_path)
    assert not await store.put(make_entry(as_of=asked_at))
    await store.aclose()


async def test_file_replaced_under_a_transaction(tmp_path: Path) -> None:
    """What was committed to a file that another process had just moved aside is done again."""
    store = await open_store(tmp_path)
    files = Files(tmp_path)
    attempts = []

    def put_while_another_moves_the_file(write: Write) -> None:
        attempts.append(write)
        if len(attempts) == 1:
            with files.exclusive():
                files.move_aside(1)
        entries.store(write.connection, make_entry(), write.used_at)

    await store._write(put_while_another_moves_the_file)
    assert len(attempts) == 2
    assert await store.get(make_key("question")) == make_entry()
    await store.aclose()


async def test_two_broken_files_are_kept(tmp_path: Path) -> None:
    """The newest two broken files stay for whoever looks into it; older ones go."""
    clock = HandClock(1_000.0)
    for _ in range(4):
        (tmp_path / FILE).write_bytes(b"garbage" * 1_000)
        store = await open_store(tmp_path, clock=clock)
        await store.aclose()
        clock.seconds += 1.0
    assert corrupt_files(tmp_path) == [f"{FILE}.corrupt-1002", f"{FILE}.corrupt-1003"]


async def test_record_that_does_not_decode(tmp_path: Path) -> None:
    """A damaged answer is an error once, is removed and counted, and then a miss."""
    events = Recorder()
    store = await open_store(tmp_path, events)
    await store.put(ENTRIES[0])
    await store.put(ENTRIES[1])
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("UPDATE records SET record = substr(record, 1, 100) WHERE id = 1")
    other.close()
    with pytest.raises(CorruptEntry):
        await store.get(ENTRIES[0].key)
    assert events.events == [Evicted(Tier.DISK, "corrupt", 1, ENTRIES[0].size_bytes)]
    assert await store.get(ENTRIES[0].key) is None
    assert await store.get(ENTRIES[1].key) == ENTRIES[1]
    assert await store.count(Selector()) == 1
    await store.aclose()


async def test_record_under_another_key(tmp_path: Path) -> None:
    """A whole record that stands under the wrong key is never returned."""
    store = await open_store(tmp_path)
    await store.put(ENTRIES[0])
    await store.put(ENTRIES[1])
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("UPDATE records SET record = (SELECT record FROM records WHERE id = 2)")
    other.close()
    with pytest.raises(CorruptEntry):
        await store.get(ENTRIES[0].key)
    assert await store.get(ENTRIES[1].key) == ENTRIES[1]
    await store.aclose()


async def damaged_table(directory: Path, table: str) -> tuple[DiskStore, DiskStore]:
    """Return two handles on a store of which every row of ``table`` is damaged."""
    writer = await open_store(directory)
    reader = await open_store(directory)
    await writer.put(make_entry())
    await writer.move_source(make_namespace("tenant"), "faq", "v1")
    await writer.invalidate(Selector(model="other"))
    with sqlite3.connect(directory / FILE) as other:
        other.execute(f"UPDATE {table} SET record = zeroblob(40)")
    other.close()
    return writer, reader


async def check_given_up(writer: DiskStore, reader: DiskStore) -> None:
    for handle in (writer, reader):
        assert [type(change) for change in await handle.read()] == [Lost]
        assert await handle.count(Selector()) == 0
        await handle.aclose()


async def test_damaged_feed(tmp_path: Path) -> None:
    """A change that cannot be read might mean anything, so everything is given up."""
    writer, reader = await damaged_table(tmp_path, "changes")
    await check_given_up(writer, reader)


async def test_damaged_invalidations(tmp_path: Path) -> None:
    """An invalidation that cannot be read might mean the entry that is to be stored."""
    writer, reader = await damaged_table(tmp_path, "invalidations")
    assert not await writer.put(make_entry("late", as_of=0))
    await check_given_up(writer, reader)


async def test_damaged_sources(tmp_path: Path) -> None:
    """The value of a source that cannot be read is not guessed."""
    writer, reader = await damaged_table(tmp_path, "sources")
    assert await reader.source_values() == {}
    await check_given_up(writer, reader)


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\1"])
async def test_damaged_generation_file(tmp_path: Path, content: bytes) -> None:
    """The number that is shared is derived: the table's is right."""
    store = await open_store(tmp_path)
    await store.invalidate(Selector())
    await store.aclose()
    (tmp_path / "entries-v2.generation").write_bytes(content)
    store = await open_store(tmp_path)
    assert (store.position(), store.behind()) == (1, False)
    await store.invalidate(Selector())
    assert store.behind()
    await store.aclose()


async def test_generation_ahead_of_the_file(tmp_path: Path) -> None:
    """A file that lost its last commits in a power cut takes no answer from before it."""
    store = await open_store(tmp_path)
    await store.put(make_entry())
    await store.aclose()
    (tmp_path / "entries-v2.generation").write_bytes((7).to_bytes(8, sys.byteorder))
    store = await open_store(tmp_path)
    assert (store.position(), store.behind()) == (8, False)
    assert await store.get(make_key("question")) is not None
    assert not await store.put(make_entry("late", as_of=7))
    await store.aclose()
