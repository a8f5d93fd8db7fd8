"""Files that are not what was written: noticed before they are used, and only misses."""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from support.points import (
    IDENTITY,
    LATER,
    Degradations,
    add_all,
    find,
    make_id,
    make_index,
    make_point,
    make_vectors,
    open_index,
    progress,
)

from stepwell.core.names import Arrival, CacheKey, Position
from stepwell.semantic.index import merging
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.folder import Folder
from stepwell.semantic.index.manifest import FileRecord, SegmentRecord
from stepwell.semantic.index.merging import Job, SegmentDamaged
from stepwell.semantic.index.segment_files import read_dead, write_dead
from stepwell.testing.clock import HandClock

VECTORS = make_vectors(120)
NAMES = [str(number) for number in range(120)]
BOUNDS = Bounds(nprobe=1_000)
FILES = ["vectors", "columns", "texts", "ivf-0", "dead"]


@pytest.fixture
def clock() -> HandClock:
    """Time that stands still."""
    return HandClock()


@pytest.fixture
async def directory(tmp_path: Path, clock: HandClock) -> Path:
    """An index of two segments: 0 to 99 with an inverted file, of which 99 is dead; 100 to 119."""
    folder = tmp_path / "index"
    index = await open_index(folder, clock)
    add_all(index, NAMES[:100], VECTORS[:100])
    await index.flush(Position(0))
    (segment,) = Folder(folder, IDENTITY).usable_manifest().segments
    assert merging.run(Job(str(folder), IDENTITY, (segment.name,), 50, 0.0))
    await index.refresh()
    index.remove(CacheKey(make_id("99")))
    add_all(index, NAMES[100:], VECTORS[100:])
    await index.flush(Position(4), Arrival(120))
    return folder


def file_of(directory: Path, kind: str) -> Path:
    """Return a file of the larger segment."""
    large, _ = sorted(
        (s for s in Folder(directory, IDENTITY).usable_manifest().segments),
        key=lambda segment: -segment.shape.rows,
    )
    files: list[FileRecord | None] = [*large.files, large.dead]
    (name,) = [file.name for file in files if file is not None and file.name.startswith(kind)]
    return directory / large.name / name


def truncate(path: Path) -> None:
    """Leave half of it."""
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def empty(path: Path) -> None:
    """Leave nothing of it."""
    path.write_bytes(b"")


def zero_tail(path: Path) -> None:
    """Write zeros over the last part, as after a power cut."""
    content = path.read_bytes()
    cut = len(content) * 3 // 4 if len(content) > 16 else 0
    path.write_bytes(content[:cut] + bytes(len(content) - cut))


def lengthen(path: Path) -> None:
    """Add a byte."""
    path.write_bytes(path.read_bytes() + b"\x00")


def make_directory(path: Path) -> None:
    """Put a directory in its place."""
    path.unlink()
    path.mkdir()


def flip(place: float) -> Callable[[Path], None]:
    """Return a damage that changes a bit at a share of the length."""

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(place * (len(content) - 1))] ^= 0x10
        path.write_bytes(content)

    damage.__name__ = f"flip at {place}"
    return damage


DAMAGES = [truncate, empty, zero_tail, lengthen, Path.unlink]
DAMAGES += [flip(place) for place in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_damaged_segment_is_left_out(
    directory: Path, clock: HandClock, kind: str, damage: Callable[[Path], None]
) -> None:
    """It is told, the rest goes on, and what was lost can be added and written again."""
    damage(file_of(directory, kind))
    events = Degradations()
    index = make_index(directory, clock, events=events, bounds=BOUNDS)
    await index.refresh()
    assert len(events.errors) == 1
    assert index.contents().points == 20
    gap = index.gap
    assert gap is not None
    assert gap.after == progress()
    assert find(index, VECTORS[110]) == ["110"]
    assert "5" not in find(index, VECTORS[5], k=200)
    add_all(index, NAMES[:99], VECTORS[:99])
    await index.flush(Position(4), Arrival(120))
    await index.refresh()
    if index.gap is not gap:
        pytest.fail("writing opened another gap")
    index.close_gap(gap)
    assert await index.flush(Position(4), Arrival(120))
    assert len(events.errors) == 1
    again = make_index(directory, clock, events=events, bounds=BOUNDS)
    await again.refresh()
    assert len(events.errors) == 1
    assert again.contents().points == 119
    assert again.gap is not None
    assert again.gap.after == progress(4, 120)
    assert [find(again, VECTORS[n]) for n in range(99)] == [[NAMES[n]] for n in range(99)]


@pytest.mark.parametrize("damage", [*DAMAGES, make_directory], ids=lambda damage: damage.__name__)
async def test_a_damaged_manifest(
    directory: Path, clock: HandClock, damage: Callable[[Path], None]
) -> None:
    """Nothing of the directory is used; the index begins anew in it."""
    damage(directory / "manifest")
    events = Degradations()
    index = make_index(directory, clock, events=events, bounds=BOUNDS)
    await index.refresh()
    assert len(events.errors) == (damage is not Path.unlink)
    assert index.contents().points == 0
    assert index.gap is not None
    assert index.gap.after == progress()
    add_all(index, NAMES, VECTORS)
    written = await index.flush(Position(4), Arrival(120))
    assert written == (damage is not make_directory)
    assert find(index, VECTORS[5]) == ["5"]


@pytest.mark.parametrize("kind", FILES)
async def test_any_flipped_bit_is_noticed(directory: Path, clock: HandClock, kind: str) -> None:
    """Wherever it is."""
    path = file_of(directory, kind)
    content = path.read_bytes()
    chance = random.Random(kind)
    for _ in range(25):
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        index = make_index(directory, clock, bounds=BOUNDS)
        await index.refresh()
        assert index.contents().points == 20


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("damage", [truncate, empty], ids=lambda damage: damage.__name__)
async def test_a_file_that_is_cut_short_while_it_is_mapped(
    directory: Path, clock: HandClock, kind: str, damage: Callable[[Path], None]
) -> None:
    """Every call goes on; the worker asks for what it lost, and the next write heals."""
    events = Degradations()
    index = await open_index(directory, clock, events=events, bounds=BOUNDS)
    damage(file_of(directory, kind))
    in_use = kind != "dead"
    for number in range(120):
        found = find(index, VECTORS[number], k=200)
        assert (str(number) in found) == (number >= 100 or (number < 99 and not in_use))
    index.add(make_point("5", position=1), VECTORS[5])
    index.remove(CacheKey(make_id("6")))
    await index.maintain(Position(4), Arrival(120))
    assert bool(events.errors) == in_use
    assert (index.gap is not None) == in_use
    assert find(index, VECTORS[5]) == ["5"]
    await index.flush(Position(4), Arrival(120))
    assert "damage" not in str(events.errors)
    again = make_index(directory, clock, bounds=BOUNDS)
    await again.refresh()
    assert find(again, VECTORS[5]) == ["5"]
    assert find(again, VECTORS[110]) == ["110"]


async def test_the_directory_is_deleted_while_it_is_used(directory: Path, clock: HandClock) -> None:
    """What is mapped is searched on until it has been added again."""
    events = Degradations()
    index = await open_index(directory, clock, events=events, bounds=BOUNDS)
    shutil.rmtree(directory)
    await index.maintain(Position(4), Arrival(120))
    assert events.errors == ["the manifest is gone"]
    assert all(find(index, VECTORS[n]) == [NAMES[n]] for n in range(99))
    gap = index.gap
    assert gap is not None
    assert gap.after == progress()
    assert not index.holds(CacheKey(make_id("5")), LATER)
    add_all(index, NAMES[:99], VECTORS[:99])
    assert index.holds(CacheKey(make_id("5")), LATER)
    assert sorted(find(index, VECTORS[0], k=200)) == sorted(NAMES[:99] + NAMES[100:])
    add_all(index, NAMES[100:], VECTORS[100:])
    index.close_gap(gap)
    assert await index.flush(Position(4), Arrival(120))
    assert index.contents().points == 119
    assert (await open_index(directory, clock)).contents().points == 119
    assert len(events.errors) == 1


async def test_a_segment_is_deleted_while_it_is_used(directory: Path, clock: HandClock) -> None:
    """The next write does not name it, and what it held is asked for."""
    events = Degradations()
    index = await open_index(directory, clock, events=events, bounds=BOUNDS)
    shutil.rmtree(file_of(directory, "vectors").parent)
    index.add(make_point("new"), VECTORS[99])
    assert await index.flush(Position(5), Arrival(121))
    assert events.errors == ["segments are gone from the directory"]
    assert index.gap is not None
    assert index.gap.after == progress()
    assert all(find(index, VECTORS[n]) == [NAMES[n]] for n in range(99))
    again = make_index(directory, clock, events=events, bounds=BOUNDS)
    await again.refresh()
    assert again.contents().points == 21
    assert again.gap is not None
    assert again.gap.after == progress()
    assert len(events.errors) == 1


async def test_a_merge_does_not_take_damage_on(directory: Path, clock: HandClock) -> None:
    """It says which segment it is, and the worker leaves it out from then on."""
    events = Degradations()
    index = await open_index(directory, clock, events=events, bounds=Bounds(dead_share=0.0))
    path = file_of(directory, "vectors")
    content = path.read_bytes()
    path.write_bytes(b"\xff" + content[1:])
    job = Job(str(directory), IDENTITY, (path.parent.name,), 50, 0.0)
    with pytest.raises(SegmentDamaged) as caught:
        merging.run(job)
    assert caught.value.segment == path.parent.name
    await index.maintain(Position(4), Arrival(120))
    while index.is_merging:
        await index.maintain(Position(4), Arrival(120))
    await index.refresh()
    assert index.contents().points == 20
    assert index.gap is not None
    assert [error for error in events.errors if "checksum" in error]


async def test_a_publisher_comes_before_a_merge(
    directory: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It deletes the dead rows that the merge was about to read: no damage, but news."""
    folder = Folder(directory, IDENTITY)
    pending = [folder.usable_manifest()]

    def publish_first(path: Path, record: SegmentRecord) -> npt.NDArray[np.bool_]:
        if record.dead is not None and pending:
            before = pending.pop()
            dead = read_dead(path, record)
            dead[50] = True
            newer = replace(record, dead=write_dead(path, before.generation + 1, dead))
            segments = tuple(newer if s.name == record.name else s for s in before.segments)
            with folder.publishing():
                folder.publish(before.followed_by(segments, before.progress))
        return read_dead(path, record)

    monkeypatch.setattr(merging, "read_dead", publish_first)
    names = tuple(segment.name for segment in pending[0].segments)
    assert merging.run(Job(str(directory), IDENTITY, names, 50, 0.0))
    assert pending == []
    index = await open_index(directory, clock, bounds=BOUNDS)
    assert index.contents().segments == 1
    assert index.contents().points == 118


async def test_what_is_left_of_others_is_deleted(directory: Path, clock: HandClock) -> None:
    """Segments half written by workers that were killed."""
    (directory / ("0" * 32)).mkdir()
    (directory / ("0" * 32) / "vectors").write_bytes(b"x")
    (directory / ("1" * 32 + ".building")).mkdir()
    (directory / "merge-2").mkdir()
    index = await open_index(directory, clock)
    await index.flush(Position(4), Arrival(120))
    names = _directories(directory)
    segments = {s.name for s in Folder(directory, IDENTITY).usable_manifest().segments}
    assert names == segments | {"merge-2"}
    assert merging.run(Job(str(directory), IDENTITY, tuple(segments), 50, 0.0))
    assert not (directory / "merge-2").exists()


def _directories(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.is_dir()}
