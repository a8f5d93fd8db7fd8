"""The disk store in one process: bounds, order of leaving, timeouts, clocks, closing."""

import asyncio
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwell.core.changes import Invalidated, Judged, Lost
from stepwell.core.entry import Arrived, Entry, Selector
from stepwell.core.errors import StoreFull, StoreUnavailable
from stepwell.core.events import Event, Evicted
from stepwell.core.judgement import Verdict
from stepwell.core.names import Arrival, PairId, Tier
from stepwell.stores.disk import log
from stepwell.stores.disk.files import Files
from stepwell.stores.disk.store import READ_BOUNDS, WRITE_BOUNDS, DiskStore
from stepwell.stores.disk.transactions import FILE_ALLOWANCE_BYTES, FILE_FACTOR
from stepwell.testing.clock import HandClock
from stepwell.testing.entries import (
    make_entry,
    make_judgement,
    make_key,
    make_namespace,
    make_phrasing,
)

FILE = "entries-v2.sqlite"
TEN_YEARS = 3.2e8


class Recorder:
    """Keeps events, and refuses those of another thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._thread = threading.get_ident()

    def emit(self, event: Event) -> None:
        assert threading.get_ident() == self._thread
        self.events.append(event)


async def open_store(
    directory: Path,
    *,
    max_bytes: int = 2**24,
    clock: HandClock | None = None,
    events: Recorder | None = None,
    timeout_seconds: float = 10.0,
) -> DiskStore:
    return await DiskStore.open(
        directory,
        max_bytes=max_bytes,
        clock=clock or HandClock(),
        events=events or Recorder(),
        timeout_seconds=timeout_seconds,
        poll_seconds=0.02,
    )


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def put_all(store: DiskStore, entries: list[Entry]) -> None:
    for start in range(0, len(entries), 500):
        assert all(await asyncio.gather(*map(store.put, entries[start : start + 500])))


async def names_left(store: DiskStore, names: list[str]) -> list[str]:
    return [name for name in names if await store.get(make_key(name)) is not None]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10.0):
        while not condition():  # noqa: ASYNC110  (another process or thread makes it true)
            await asyncio.sleep(0.005)


async def test_reopened_store_has_everything(tmp_path: Path) -> None:
    """Entries, sources and position outlive the process; a new handle is not behind."""
    entry = make_entry(tags=("returns",))
    first = await open_store(tmp_path / "store")
    await first.put(entry)
    await first.move_source(entry.namespace, "faq", "v7")
    await first.aclose()
    second = await open_store(tmp_path / "store")
    assert await second.get(entry.key) == entry
    assert await second.source_values() == {(entry.namespace, "faq"): "v7"}
    assert (second.position(), second.behind()) == (1, False)
    await second.aclose()


async def test_directory_is_for_its_user_alone(tmp_path: Path) -> None:
    """The directory is made, parents too, and nobody else can look into it or its files."""
    directory = tmp_path / "deep" / "store"
    store = await open_store(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files_in(directory)} == {0o600}
    await store.aclose()


async def test_sum_of_sizes_stays_under_the_bound(tmp_path: Path) -> None:
    """Three times what fits leaves what fits, in a file of less than twice the bound."""
    max_bytes = 2**22
    events = Recorder()
    store = await open_store(tmp_path, max_bytes=max_bytes, events=events)
    entries = [make_entry(str(number), body=bytes(2_048)) for number in range(5_000)]
    assert sum(entry.size_bytes for entry in entries) > 3 * max_bytes
    await put_all(store, entries)
    left = await store.count(Selector())
    evicted = sum(event.entries for event in events.events if isinstance(event, Evicted))
    assert left == max_bytes // entries[0].size_bytes
    assert left + evicted == len(entries)
    await store.aclose()
    assert (tmp_path / FILE).stat().st_size < FILE_FACTOR * max_bytes


async def test_file_stays_under_its_own_bound(tmp_path: Path) -> None:
    """What is not charged to an entry, such as huge tags, still cannot fill the disk."""
    max_bytes = 2**20
    store = await open_store(tmp_path, max_bytes=max_bytes)
    tags = tuple(f"{number}{'x' * 1_000}" for number in range(20))
    entries = [make_entry(str(number), tags=tags) for number in range(1_200)]
    await put_all(store, entries)
    assert 0 < await store.count(Selector()) < 1_200
    await store.aclose()
    # A transaction makes room at its end: the file also held one batch, rounded up to pages.
    bound = FILE_FACTOR * max_bytes + FILE_ALLOWANCE_BYTES + 2 * WRITE_BOUNDS.batch_bytes
    assert (tmp_path / FILE).stat().st_size < bound


async def test_space_is_given_back(tmp_path: Path) -> None:
    """After much was invalidated the file shrinks while the store is running."""
    store = await open_store(tmp_path)
    await put_all(store, [make_entry(str(number), body=bytes(8_000)) for number in range(1_000)])
    await store.invalidate(Selector())
    await until(lambda: sum(path.stat().st_size for path in files_in(tmp_path)) < 1_000_000)
    await store.aclose()


async def test_lower_bound_at_opening(tmp_path: Path) -> None:
    """A store that is opened with a smaller bound keeps it from the start."""
    entry = make_entry(body=bytes(1_000))
    store = await open_store(tmp_path)
    await put_all(store, [make_entry(str(number), body=bytes(1_000)) for number in range(300)])
    await store.aclose()
    smaller = await open_store(tmp_path, max_bytes=10 * entry.size_bytes)
    assert await smaller.count(Selector()) == 10
    await smaller.aclose()


async def test_expired_leave_first_then_the_least_used(tmp_path: Path) -> None:
    """Who is past its time leaves before all others; then who was used least and longest ago."""
    clock = HandClock()
    events = Recorder()
    room = 4 * make_entry().size_bytes
    store = await open_store(tmp_path, max_bytes=room, clock=clock, events=events)
    for name, ttl_seconds in (("hot", 1e6), ("cold", 1e6), ("brief", 10.0), ("warm", 1e6)):
        clock.seconds += 1.0
        await store.put(make_entry(name, ttl_seconds=ttl_seconds))
    store.touch({make_key("hot"): 5, make_key("unknown"): 1})
    await store.aclose()

    store = await open_store(tmp_path, max_bytes=room, clock=clock, events=events)
    clock.seconds += 60.0
    await store.put(make_entry("new", ttl_seconds=1e6))
    names = ["hot", "cold", "brief", "warm", "new", "newer"]
    assert await names_left(store, names) == ["hot", "cold", "warm", "new"]
    await store.put(make_entry("newer", ttl_seconds=1e6))
    assert await names_left(store, names) == ["hot", "warm", "new", "newer"]
    assert [
        (event.reason, event.entries) for event in events.events if isinstance(event, Evicted)
    ] == [
        ("expired", 1),
        ("capacity", 1),
    ]
    await store.aclose()


async def test_touches_are_written_while_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses reach the file without a closing, so that a crash loses only the last of them."""
    monkeypatch.setattr("stepwell.stores.disk.store.TOUCH_SECONDS", 0.0)
    store = await open_store(tmp_path)
    await store.put(make_entry())
    store.touch({make_key("question"): 7})

    def worth() -> float:
        with sqlite3.connect(tmp_path / FILE) as other:
            (value,) = other.execute("SELECT worth FROM entries").fetchone()
        other.close()
        return float(value)

    await until(lambda: worth() == 1_000.0 + 3_600.0 * 3.0)
    await store.aclose()


@pytest.mark.parametrize("jump", [-TEN_YEARS, TEN_YEARS])
async def test_clock_jumps(tmp_path: Path, jump: float) -> None:
    """After the clock jumped, a full store still takes entries and returns the latest."""
    clock = HandClock(2e9)
    room = 3 * make_entry().size_bytes
    store = await open_store(tmp_path, max_bytes=room, clock=clock)
    for name in "abc":
        clock.seconds += 1.0
        await store.put(make_entry(name, created_at=clock.seconds, ttl_seconds=1e10))
    clock.seconds += jump
    for name in "de":
        clock.seconds += 1.0
        await store.put(make_entry(name, created_at=clock.seconds, ttl_seconds=1e10))
    assert await names_left(store, list("abcde")) == ["c", "d", "e"]
    await store.aclose()


async def test_replaced_and_invalidated_are_told(tmp_path: Path) -> None:
    """Every entry that leaves is counted, by reason."""
    events = Recorder()
    store = await open_store(tmp_path, events=events)
    size_bytes = make_entry().size_bytes
    await store.put(make_entry())
    await store.put(make_entry())
    await store.invalidate(Selector(tag="no such tag"))
    await store.invalidate(Selector(model="model"))
    assert events.events == [
        Evicted(Tier.DISK, "replaced", 1, size_bytes),
        Evicted(Tier.DISK, "invalidated", 1, size_bytes),
    ]
    await store.aclose()


async def test_reader_that_fell_off_the_feed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who missed more than the feed holds is told so once, and follows again from there."""
    monkeypatch.setattr(log, "KEPT_CHANGES", 100)
    writer = await open_store(tmp_path)
    reader = await open_store(tmp_path)
    space = make_namespace("tenant")
    await asyncio.gather(*(writer.move_source(space, "faq", str(n)) for n in range(512)))
    assert list(await reader.read()) == [Lost(reader.position())]
    assert (reader.position(), reader.behind()) == (512, False)
    await writer.invalidate(Selector(tag="t"))
    assert [type(change) for change in await reader.read()] == [Invalidated]
    await writer.aclose()
    await reader.aclose()


async def test_entry_older_than_all_known_invalidations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot know whether an entry was invalidated does not store it. Other changes do not
    push invalidations out."""
    monkeypatch.setattr(log, "KEPT_CHANGES", 100)
    store = await open_store(tmp_path)
    space = make_namespace("tenant")
    await asyncio.gather(*(store.move_source(space, "faq", str(n)) for n in range(512)))
    assert await store.put(make_entry("kept", as_of=0))
    await asyncio.gather(*(store.invalidate(Selector(tag=str(n))) for n in range(512)))
    assert not await store.put(make_entry("refused", as_of=0))
    assert await store.put(make_entry("stored", as_of=1_000))
    await store.aclose()


async def test_sources_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace has so many sources and no more; those it has can still move."""
    monkeypatch.setattr(log, "MAX_SOURCES", 2)
    store = await open_store(tmp_path)
    space = make_namespace("tenant")
    assert await store.move_source(space, "a", "1")
    assert await store.move_source(space, "b", "1")
    with pytest.raises(StoreFull, match="'c' is one more"):
        await store.move_source(space, "c", "1")
    assert await store.move_source(space, "a", "2")
    assert await store.move_source(make_namespace("other"), "c", "1")
    await store.aclose()


async def test_value_that_cannot_be_written_fails_alone(tmp_path: Path) -> None:
    """One bad entry in a batch does not take its neighbours with it."""
    store = await open_store(tmp_path)
    good, bad, too = await asyncio.gather(
        store.put(make_entry("good")),
        store.put(make_entry("bad", model="\ud800")),
        store.put(make_entry("too")),
        return_exceptions=True,
    )
    assert (good, too) == (True, True)
    assert isinstance(bad, StoreUnavailable)
    assert await store.count(Selector()) == 2
    await store.aclose()


async def test_entry_larger_than_the_store(tmp_path: Path) -> None:
    """It is refused instead of driving everything else out."""
    store = await open_store(tmp_path, max_bytes=10_000)
    await store.put(make_entry("small"))
    with pytest.raises(StoreFull, match="the disk store holds 10000"):
        await store.put(make_entry("large", body=bytes(10_000)))
    assert await store.count(Selector()) == 1
    await store.aclose()


async def test_waiting_writes_are_bounded(tmp_path: Path) -> None:
    """While nothing can be written so many puts wait, further ones fail at once, none is lost."""
    store = await open_store(tmp_path)
    blocker = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    puts = [
        asyncio.create_task(store.put(make_entry(str(number))))
        for number in range(WRITE_BOUNDS.jobs)
    ]
    await asyncio.sleep(0)
    with pytest.raises(StoreFull, match="1024 calls"):
        await store.put(make_entry("one too many"))
    blocker.execute("ROLLBACK")
    blocker.close()
    assert all(await asyncio.gather(*puts))
    assert await store.count(Selector()) == WRITE_BOUNDS.jobs
    await store.aclose()


async def test_hanging_reads_time_out_and_do_not_pile_up(tmp_path: Path) -> None:
    """A disk that hangs costs a get its timeout, soon not even that, and heals by itself."""
    store = await open_store(tmp_path, timeout_seconds=0.05)
    files = Files(tmp_path)
    with files.exclusive():
        # The reading thread finds its file gone and waits for the lock to make a new one.
        files.database.unlink()
        with pytest.raises(StoreUnavailable, match=r"no answer in 0\.05 s"):
            await store.get(make_key("question"))
        waiting = [store.get(make_key("question")) for _ in range(READ_BOUNDS.jobs)]
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert "256 calls" in str(failures[-1])
        assert {type(failure) for failure in failures} == {StoreUnavailable}
    assert await healed(store) is None
    await store.aclose()


async def healed(store: DiskStore) -> Entry | None:
    async with asyncio.timeout(10.0):
        while True:
            try:
                return await store.get(make_key("question"))
            except StoreUnavailable:
                await asyncio.sleep(0.005)


async def test_cancelled_calls_leave_nothing_behind(tmp_path: Path) -> None:
    """Callers that left do not use up the bound on waiting calls."""
    store = await open_store(tmp_path)
    for _ in range(READ_BOUNDS.jobs + 1):
        call = asyncio.create_task(store.get(make_key("question")))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
    assert await store.get(make_key("question")) is None
    await store.aclose()


async def test_directory_removed_under_a_running_store(tmp_path: Path) -> None:
    """Who clears the cache by ``rm -r`` gets an empty cache, and every view is told."""
    first = await open_store(tmp_path / "store")
    second = await open_store(tmp_path / "store")
    await first.put(make_entry())
    await first.move_source(make_namespace("tenant"), "faq", "v1")
    await second.read()
    shutil.rmtree(tmp_path / "store")
    assert await first.get(make_key("question")) is None
    assert await first.put(make_entry(as_of=await up_to_date(first)))
    assert await second.get(make_key("question")) is not None
    assert second.behind()
    assert [type(change) for change in await second.read()] == [Lost]
    third = await open_store(tmp_path / "store")
    await third.invalidate(Selector())
    assert first.behind()
    assert second.behind()
    for store in (first, second, third):
        await store.aclose()


async def up_to_date(store: DiskStore) -> int:
    await store.read()
    return store.position()


async def test_closed_store(tmp_path: Path) -> None:
    """After closing, every call says so; a view of it is not behind, and closing again is fine."""
    store = await open_store(tmp_path)
    await store.aclose()
    await store.aclose()
    for call in (
        store.get(make_key("question")),
        store.put(make_entry()),
        store.count(Selector()),
        store.invalidate(Selector()),
        store.read(),
        store.source_values(),
        store.move_source(make_namespace("tenant"), "faq", "v1"),
    ):
        with pytest.raises(StoreUnavailable, match="is closed"):
            await call
    assert not store.behind()


async def test_closing_writes_what_waits(tmp_path: Path) -> None:
    """Puts that were called before the closing are stored."""
    store = await open_store(tmp_path)
    puts = [asyncio.create_task(store.put(make_entry(str(number)))) for number in range(50)]
    await asyncio.sleep(0)
    await store.aclose()
    assert await asyncio.gather(*puts) == [True] * 50
    again = await open_store(tmp_path)
    assert await again.count(Selector()) == 50
    await again.aclose()


async def test_place_that_is_no_directory(tmp_path: Path) -> None:
    """The error names the path and what to do about it."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"file/store: .*choose another directory"):
        await open_store(tmp_path / "file" / "store")


async def test_arrivals_come_in_order_and_once(tmp_path: Path) -> None:
    """Phrased entries in the order they came; replaced ones where they came last."""
    store = await open_store(tmp_path)
    for name in ("a", "b", "c"):
        await store.put(make_entry(name, phrasing=make_phrasing(f"words of {name}")))
    await store.put(make_entry("plain"))
    newer = make_entry("a", created_at=1_001.0, phrasing=make_phrasing("words of a"))
    await store.put(newer)
    await store.invalidate(Selector(key=make_key("b")))
    first, place = await store.arrived(Arrival(0), 1)
    rest, last = await store.arrived(place, 10)
    expires_at = make_entry().expires_at
    assert [*first, *rest] == [
        Arrived(make_key("c"), expires_at),
        Arrived(make_key("a"), expires_at + 1),
    ]
    assert await store.arrived(last, 10) == ([], last)
    await store.aclose()


async def test_an_arrival_behind_the_last_is_never_missed(tmp_path: Path) -> None:
    """A place is not used twice, even if the latest entry has left."""
    store = await open_store(tmp_path)
    await store.put(make_entry("a", phrasing=make_phrasing("words")))
    _, place = await store.arrived(Arrival(0), 10)
    await store.invalidate(Selector())
    await store.put(make_entry("b", as_of=9, phrasing=make_phrasing("words")))
    found, _ = await store.arrived(place, 10)
    assert [entry.key for entry in found] == [make_key("b")]
    await store.aclose()


async def test_judgements_outlast_a_restart(tmp_path: Path) -> None:
    """The latest of a pair, in the order in which they were made; other workers hear of them."""
    store, other = await open_store(tmp_path), await open_store(tmp_path)
    pairs = [PairId(bytes([number] * 16)) for number in range(3)]
    made = [make_judgement(pair, make_key("entry")) for pair in pairs]
    for judgement in made:
        await store.judge(judgement)
    changed = make_judgement(pairs[0], make_key("entry"), verdict=Verdict.RIGHT)
    await store.judge(changed)
    heard = [change.judgement for change in await other.read() if isinstance(change, Judged)]
    assert heard == [*made, changed]
    await store.aclose()
    await other.aclose()
    again = await open_store(tmp_path)
    assert await again.judgements() == [made[1], made[2], changed]
    await again.aclose()


async def test_judgements_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest right leaves first, then the oldest."""
    monkeypatch.setattr(log, "MAX_JUDGEMENTS", 2)
    store = await open_store(tmp_path)
    verdicts = (Verdict.WRONG, Verdict.RIGHT, Verdict.WRONG, Verdict.WRONG)
    made = [
        make_judgement(PairId(bytes([number] * 16)), make_key("entry"), verdict=verdict)
        for number, verdict in enumerate(verdicts)
    ]
    for judgement in made[:3]:
        await store.judge(judgement)
    assert await store.judgements() == [made[0], made[2]]
    await store.judge(made[3])
    assert await store.judgements() == [made[2], made[3]]
    await store.aclose()
