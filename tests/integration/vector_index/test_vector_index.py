"""The vector index on disk: what one worker writes, others see, and a restart finds."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from support.points import (
    DIMENSIONS,
    LATER,
    Degradations,
    add_all,
    find,
    make_group,
    make_id,
    make_index,
    make_near,
    make_point,
    make_vectors,
    open_index,
    progress,
    texts,
)

from stepwell.core.entry import Selector
from stepwell.core.names import Arrival, CacheKey, Position
from stepwell.semantic.index.bounds import Bounds
from stepwell.semantic.index.folder import Folder
from stepwell.semantic.index.index import VectorIndex
from stepwell.semantic.index.manifest import Identity
from stepwell.testing.clock import HandClock

VECTORS = make_vectors(200)
NAMES = [str(number) for number in range(200)]
SMALL = Bounds(delta_points=20, ivf_rows=50, nprobe=1_000)


@pytest.fixture
def clock() -> HandClock:
    """Time that stands still."""
    return HandClock()


async def merged(index: VectorIndex) -> None:
    """Maintain until no merge is due or running."""
    async with asyncio.timeout(60):
        await index.maintain(Position(0))
        while index.is_merging:
            await asyncio.sleep(0.05)
            await index.maintain(Position(0))


async def test_a_point_is_found_at_once_and_after_a_flush(tmp_path: Path, clock: HandClock) -> None:
    """With everything that was known of it, and its similarity to the last bit but one."""
    index = await open_index(tmp_path, clock)
    point = make_point("a", temperature=0.7, position=3, tags=("x",))
    query = make_near(VECTORS[:1], 0.8)[0]
    assert index.add(point, VECTORS[0])
    for _ in range(2):
        (found,) = index.search(point.partition, query, 5, 0.0)
        assert found[:5] == (point.key, point.text, 0.7, point.expires_at, 3)
        assert found.similarity == pytest.approx(float(VECTORS[0] @ query), abs=1e-6)
        assert await index.flush(Position(0))
        assert index.contents().delta_points == 0
    (opposite,) = index.search(point.partition, -VECTORS[0], 5, 0.0)
    assert opposite.similarity == 0.0


async def test_a_restart_finds_all_without_their_vectors(tmp_path: Path, clock: HandClock) -> None:
    """And is told from where on it must read the store."""
    index = await open_index(tmp_path, clock)
    add_all(index, NAMES, VECTORS)
    await index.flush(Position(7), Arrival(200))
    await index.aclose()
    again = make_index(tmp_path, clock)
    await again.refresh()
    assert again.gap is not None
    assert again.gap.after == progress(7, 200)
    assert [find(again, vector) for vector in VECTORS] == [[name] for name in NAMES]


async def test_partitions_do_not_starve_each_other(tmp_path: Path, clock: HandClock) -> None:
    """However many nearer points another partition has, in whatever kind of segment."""
    index = await open_index(tmp_path, clock, bounds=SMALL)
    near = make_near(np.repeat(VECTORS[:1], 150, axis=0), 0.99)
    for number, vector in enumerate(near):
        index.add(make_point(f"near {number}", partition="crowded"), vector)
        if number % 30 == 29:
            await index.flush(Position(0))
    for number in range(3):
        index.add(make_point(f"own {number}", partition="own"), VECTORS[number + 1])
    await merged(index)
    found = texts(index.search(make_id("own"), VECTORS[0], 10, 0.0))
    assert sorted(found) == ["own 0", "own 1", "own 2"]
    assert len(index.search(make_id("crowded"), VECTORS[0], 10, 0.0)) == 10
    assert index.search(make_id("nobody's"), VECTORS[0], 10, 0.0) == []


async def test_partitions_beyond_number_are_found(tmp_path: Path, clock: HandClock) -> None:
    """A segment remembers where some are, also that it has none of one, and looks for the rest."""
    index = await open_index(tmp_path, clock, bounds=Bounds(delta_points=5_000))
    for number in range(2_500):
        point = make_point(str(number), partition=f"of {number}")
        index.add(point, VECTORS[number % 200])
    await index.flush(Position(0))
    for _ in range(2):
        for number in range(2_600):
            found = index.search(make_id(f"of {number}"), VECTORS[number % 200], 2, 0.0)
            assert texts(found) == ([str(number)] if number < 2_500 else [])


@pytest.mark.parametrize("ivf_rows", [10_000, 50], ids=["scan", "inverted file"])
async def test_dead_points_leave_room_for_live_ones(
    tmp_path: Path, clock: HandClock, ivf_rows: int
) -> None:
    """Expired and removed ones, though all of them are nearer than the live one."""
    bounds = Bounds(delta_points=20, ivf_rows=ivf_rows, nprobe=1_000, dead_share=1.0)
    index = await open_index(tmp_path, clock, bounds=bounds)
    near = make_near(np.repeat(VECTORS[:1], 120, axis=0), 0.99)
    for number, vector in enumerate(near):
        expires_at = 2_000.0 if number % 2 else LATER
        index.add(make_point(str(number), expires_at=expires_at), vector)
        if number % 30 == 29:
            await index.flush(Position(0))
    index.add(make_point("live"), make_near(VECTORS[:1], 0.9)[0])
    await index.flush(Position(0))
    await merged(index)
    assert index.contents().segments == 1
    for number in range(0, 120, 2):
        assert index.remove(CacheKey(make_id(str(number))))
    clock.seconds = 2_000.0
    assert find(index, VECTORS[0], k=5, now=1_999.0)[0] != "live"
    assert find(index, VECTORS[0], k=5, now=2_000.0) == ["live"]


async def test_another_worker_sees_a_flush_and_keeps_its_own(
    tmp_path: Path, clock: HandClock
) -> None:
    """Points both have added are not found twice, and leave the other's delta."""
    first, second = [await open_index(tmp_path, clock) for _ in range(2)]
    add_all(first, NAMES[:100], VECTORS[:100])
    add_all(second, NAMES[50:150], VECTORS[50:150])
    await first.flush(Position(0))
    assert find(second, VECTORS[0]) != ["0"]
    await second.refresh()
    assert second.contents().delta_points == 50
    assert second.contents().points == 150
    for number in range(150):
        assert find(second, VECTORS[number], k=150).count(str(number)) == 1
    assert not second.add(make_point("3"), VECTORS[3])


async def test_a_newer_point_wins_over_a_written_one(tmp_path: Path, clock: HandClock) -> None:
    """Whichever worker has it, and after a restart."""
    first, second = [await open_index(tmp_path, clock) for _ in range(2)]
    first.add(make_point("a", position=1), VECTORS[0])
    second.add(make_point("a", position=2), VECTORS[1])
    await first.flush(Position(2))
    await second.refresh()
    (found,) = second.search(make_id("partition"), VECTORS[0], 9, 0.0)
    assert (found.position, found.similarity < 0.9) == (2, True)
    assert not second.add(make_point("a", position=1), VECTORS[0])
    await second.flush(Position(2))
    for index in (second, first, await open_index(tmp_path, clock)):
        await index.refresh()
        assert [c.position for c in index.search(make_id("partition"), VECTORS[0], 9, 0.0)] == [2]


async def test_removals_outlive_a_restart(tmp_path: Path, clock: HandClock) -> None:
    """Also of rows in segments that are not written anew."""
    index = await open_index(tmp_path, clock)
    for number in range(100):
        group = make_group(number % 3)
        index.add(
            make_point(str(number), group=group, tags=(f"tag {number % 5}",)), VECTORS[number]
        )
    await index.flush(Position(0))
    namespace = make_group(1).namespace
    assert index.remove_where(Selector(namespace=namespace, tag="tag 2"), Position(1)) == 7
    assert index.remove(CacheKey(make_id("0")))
    assert not index.remove(CacheKey(make_id("0")))
    assert index.contents().points == 92
    await index.flush(Position(1))
    again = await open_index(tmp_path, clock)
    assert again.contents().points == 92
    gone = {str(n) for n in range(100) if n % 3 == 1 and n % 5 == 2} | {"0"}
    assert set(find(again, VECTORS[0], k=100)) == {str(n) for n in range(100)} - gone


async def test_a_worker_that_is_behind_does_not_bring_removed_points_back(
    tmp_path: Path, clock: HandClock
) -> None:
    """It may not write before it has obeyed what another that wrote had obeyed."""
    ahead, behind = [await open_index(tmp_path, clock) for _ in range(2)]
    behind.add(make_point("a"), VECTORS[0])
    ahead.remove_where(Selector(), Position(1))
    ahead.add(make_point("b", position=1), VECTORS[1])
    assert await ahead.flush(Position(1))
    assert not await behind.flush(Position(0))
    behind.remove_where(Selector(), Position(1))
    assert await behind.flush(Position(1))
    await ahead.refresh()
    assert find(ahead, VECTORS[0], k=9) == ["b"]


async def test_a_removal_reaches_what_another_writes_later(
    tmp_path: Path, clock: HandClock
) -> None:
    """A segment whose writer had not read a change yet that this worker has obeyed."""
    ahead, behind = [await open_index(tmp_path, clock) for _ in range(2)]
    behind.add(make_point("tagged", tags=("t",)), VECTORS[0])
    behind.add(make_point("named"), VECTORS[1])
    behind.add(make_point("kept"), VECTORS[2])
    ahead.remove_where(Selector(tag="t"), Position(1))
    ahead.remove(CacheKey(make_id("named")), Position(2))
    await behind.flush(Position(0))
    await ahead.refresh()
    assert find(ahead, VECTORS[0], k=9) == ["kept"]


async def test_merging_drops_the_dead(tmp_path: Path, clock: HandClock) -> None:
    """Their vectors and texts leave the disk, and the files of before are deleted."""
    index = await open_index(tmp_path, clock, bounds=SMALL)
    for part in range(5):
        add_all(index, NAMES[part * 40 : part * 40 + 40], VECTORS[part * 40 : part * 40 + 40])
        await index.flush(Position(0))
    await merged(index)
    before = _size(tmp_path)
    for name in NAMES[:120]:
        index.remove(CacheKey(make_id(name)))
    await merged(index)
    assert index.contents().segments == 1
    assert _size(tmp_path) < before / 2
    assert all(find(index, VECTORS[n]) == [NAMES[n]] for n in range(120, 200))
    assert _directories(tmp_path) == 1
    for name in NAMES:
        index.remove(CacheKey(make_id(name)))
    await merged(index)
    assert index.contents().segments == 0


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _directories(directory: Path) -> int:
    return len([path for path in directory.iterdir() if path.is_dir()])


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


async def test_changes_during_a_merge_are_kept(tmp_path: Path, clock: HandClock) -> None:
    """Points removed, replaced and added while another process writes."""
    index = await open_index(tmp_path, clock, bounds=SMALL)
    for part in range(5):
        add_all(index, NAMES[part * 40 : part * 40 + 40], VECTORS[part * 40 : part * 40 + 40])
        await index.flush(Position(0))
    await index.maintain(Position(0))
    assert index.is_merging
    index.remove(CacheKey(make_id("3")))
    index.remove_where(Selector(key=CacheKey(make_id("4"))), Position(1))
    index.add(make_point("5", position=1), VECTORS[150])
    index.remove(CacheKey(make_id("150")))
    await index.flush(Position(0))
    index.remove(CacheKey(make_id("6")))
    await merged(index)
    assert index.contents().points == 196
    for name in ("3", "4", "6", "150"):
        assert name not in find(index, VECTORS[int(name)], k=200)
    assert find(index, VECTORS[150]) == ["5"]


async def test_a_merge_keeps_the_newer_of_two_points(tmp_path: Path, clock: HandClock) -> None:
    """Also where both are from one position, and the older was removed by this worker."""
    index = await open_index(tmp_path, clock, bounds=Bounds(fan=2))
    for expires_at in (2_000.0, 3_000.0):
        assert index.add(make_point("a", expires_at=expires_at), VECTORS[0])
        await index.flush(Position(0))
    await merged(index)
    assert index.contents().segments == 1
    (found,) = index.search(make_id("partition"), VECTORS[0], 9, 0.0)
    assert found.expires_at == 3_000.0


async def test_a_point_that_was_removed_may_come_again(tmp_path: Path, clock: HandClock) -> None:
    """Of the same position: nothing was invalidated between."""
    index = await open_index(tmp_path, clock)
    for _ in range(2):
        index.add(make_point("a"), VECTORS[0])
        await index.flush(Position(0))
        assert find(index, VECTORS[0]) == ["a"]
        index.remove(CacheKey(make_id("a")))
        assert find(index, VECTORS[0]) == []


async def test_the_next_to_expire_leave_when_there_are_too_many(
    tmp_path: Path, clock: HandClock
) -> None:
    """Wherever they are."""
    index = await open_index(tmp_path, clock, bounds=Bounds(max_points=50))
    order = np.random.default_rng(1).permutation(100)
    for count, number in enumerate(order.tolist()):
        index.add(make_point(str(number), expires_at=2_000.0 + number), VECTORS[number])
        if count == 60:
            await index.flush(Position(0))
    await index.maintain(Position(0))
    assert index.contents().points == 50
    assert set(find(index, VECTORS[0], k=100)) == {str(number) for number in range(50, 100)}


async def test_the_delta_is_bounded_when_nothing_can_be_written(
    tmp_path: Path, clock: HandClock
) -> None:
    """Points are taken on, and those next to expire leave."""
    events = Degradations()
    occupied = tmp_path / "occupied"
    occupied.write_text("a file where the directory should be")
    index = await open_index(occupied, clock, events=events, bounds=Bounds(delta_points=20))
    for number in range(100):
        index.add(make_point(str(number), expires_at=2_000.0 + number), VECTORS[number])
    await index.maintain(Position(0))
    assert index.contents().delta_points == 40
    assert find(index, VECTORS[99]) == ["99"]
    assert len(events.errors) == 1
    await index.maintain(Position(0))
    assert len(events.errors) == 1
    clock.seconds += 1.0
    await index.maintain(Position(0))
    assert len(events.errors) == 2


async def test_a_long_text_counts(tmp_path: Path, clock: HandClock) -> None:
    """The delta is bounded in bytes as well."""
    index = await open_index(tmp_path, clock, bounds=Bounds(delta_bytes=100_000))
    for number in range(100):
        point = make_point(f"{number} " + "x" * 5_000)
        index.add(point, VECTORS[number])
    assert index.contents().delta_bytes < 230_000
    await index.maintain(Position(0))
    assert index.contents().delta_points == 0


async def test_what_the_feed_lost(tmp_path: Path, clock: HandClock) -> None:
    """Nothing written before is used by the worker that lost its place, and it can write anew."""
    index = await open_index(tmp_path, clock)
    add_all(index, NAMES[:10], VECTORS[:10])
    await index.flush(Position(3), Arrival(10))
    index.clear(Position(8))
    await index.refresh()
    assert index.contents().points == 0
    gap = index.gap
    assert gap is not None
    assert gap.after == progress()
    add_all(index, NAMES[:5], VECTORS[:5])
    index.close_gap(gap)
    assert index.gap is None
    assert await index.flush(Position(8), Arrival(20))
    assert index.contents().points == 5
    assert (await open_index(tmp_path, clock)).contents().points == 5


async def test_another_models_vectors_are_not_used(tmp_path: Path, clock: HandClock) -> None:
    """Nor another width's; the first write makes the directory one's own."""
    index = await open_index(tmp_path, clock)
    add_all(index, NAMES, VECTORS)
    await index.flush(Position(0))
    for identity in (Identity("other", DIMENSIONS), Identity("model", DIMENSIONS // 2)):
        events = Degradations()
        other = make_index(tmp_path, clock, identity=identity, events=events)
        await other.refresh()
        assert other.contents().points == 0
        assert len(events.errors) == 1
        vectors = make_vectors(5, dimensions=identity.dimensions)
        add_all(other, NAMES[:5], vectors)
        assert await other.flush(Position(0))
        assert find(other, vectors[0]) == ["0"]
    await index.refresh()
    assert find(index, VECTORS[7]) == ["7"]
    assert index.gap is not None


async def test_costs_are_told(tmp_path: Path, clock: HandClock) -> None:
    """The rows of the partition; of an inverted file those of the lists that are read."""
    index = await open_index(tmp_path, clock, bounds=Bounds(delta_points=20, ivf_rows=50, nprobe=1))
    add_all(index, NAMES[:30], VECTORS[:30])
    assert index.cost_hint(make_id("partition")) == 30
    assert index.cost_hint(make_id("other")) == 0
    for part in range(5):
        add_all(index, NAMES[part * 40 : part * 40 + 40], VECTORS[part * 40 : part * 40 + 40])
        await index.flush(Position(0))
    await merged(index)
    assert 0 < index.cost_hint(make_id("partition")) < 20


async def test_no_descriptor_is_kept(tmp_path: Path, clock: HandClock) -> None:
    """Segments that are not used any more release their files."""
    index = await open_index(tmp_path, clock, bounds=SMALL)
    before = _descriptors()
    for part in range(5):
        add_all(index, NAMES[part * 40 : part * 40 + 40], VECTORS[part * 40 : part * 40 + 40])
        await index.flush(Position(0))
    await merged(index)
    assert _descriptors() > before
    await index.aclose()
    # The thread that opened the last ones may be about to let go of what it returned.
    await asyncio.get_running_loop().shutdown_default_executor()
    assert _descriptors() == before


async def test_searches_on_other_threads(tmp_path: Path, clock: HandClock) -> None:
    """Find every point, once, while the loop adds, flushes and merges."""
    index = await open_index(tmp_path, clock, bounds=SMALL)
    held = 0

    def search() -> list[list[str]]:
        return [find(index, VECTORS[n], k=200) for n in range(held) for _ in range(2)]

    for part in range(10):
        add_all(index, NAMES[part * 20 : part * 20 + 20], VECTORS[part * 20 : part * 20 + 20])
        held += 20
        searching = [asyncio.to_thread(search) for _ in range(3)]
        results = await asyncio.gather(index.maintain(Position(0)), *searching)
        for found in (names for result in results[1:] if result for names in result):
            assert sorted(found) == sorted(NAMES[:held])
    await index.aclose()


async def test_the_manifest_is_for_its_owner(tmp_path: Path, clock: HandClock) -> None:
    """Texts of questions are in the directory."""
    index = await open_index(tmp_path / "index", clock)
    index.add(make_point(), VECTORS[0])
    await index.flush(Position(0))
    assert (tmp_path / "index").stat().st_mode & 0o777 == 0o700
    (segment,) = (
        Folder(tmp_path / "index", Identity("model", DIMENSIONS)).usable_manifest().segments
    )
    assert (tmp_path / "index" / segment.name).stat().st_mode & 0o777 == 0o700
