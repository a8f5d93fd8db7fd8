"""Worker processes share a ledger; the death of one takes no more than its last second."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from stepwell.core.events import Degraded, Event
from stepwell.telemetry import ledger_writer
from stepwell.telemetry.catalogue import IN_FLIGHT
from stepwell.telemetry.exposition import render_metrics
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.ledger import Ledger, read_totals
from stepwell.telemetry.ledger_marks import Mark
from stepwell.telemetry.ledger_writer import LedgerWriter
from stepwell.telemetry.meters import Meters
from stepwell.telemetry.series import Series
from stepwell.testing.clock import HandClock
from stepwell.testing.events import make_request_ended

HITS = Series(
    "stepwell_requests_total", (("outcome", "hit"), ("layer", "exact"), ("class", "general"))
)

WORKER = """
import asyncio, sys
from pathlib import Path
from stepwell.telemetry.gauges import Gauges
from stepwell.telemetry.ledger_writer import LedgerWriter
from stepwell.telemetry.meters import Meters
from stepwell.testing.events import make_request_ended

async def main() -> None:
    meters = Meters()
    writer = LedgerWriter(
        Path(sys.argv[1]), boot="boot", meters=meters, gauges=Gauges("1"), events=meters
    )
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["count", number]:
                for _ in range(int(number)):
                    meters.emit(make_request_ended())
            case ["flush"]:
                await writer.flush()
            case ["close"]:
                await writer.aclose()
        print(sorted(s.name for s in meters.values() if "degraded" in s.name), flush=True)

asyncio.run(main())
"""


class Worker:
    """A worker process that does as it is told."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def tell(self, order: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def do(self, order: str) -> None:
        self.tell(order)
        assert self.answer() == "[]"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def workers(path: Path, number: int) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = [Worker(path) for _ in range(number)]
        for worker in started:
            stack.callback(worker.kill)
        yield started


class Kept:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def writer_at(path: Path, meters: Meters, events: Kept | None = None) -> LedgerWriter:
    return LedgerWriter(
        path, boot="boot", meters=meters, gauges=Gauges("1"), events=events or Kept()
    )


async def test_killed_workers(tmp_path: Path) -> None:
    """What a worker had posted outlives its being killed; a scrape elsewhere still shows it."""
    path = tmp_path / "ledger.sqlite"
    with workers(path, 2) as (victim, survivor):
        victim.do("count 5")
        victim.do("flush")
        survivor.do("count 7")
        survivor.do("flush")
        victim.do("count 100")
        victim.kill()
        survivor.do("count 1")
        survivor.do("flush")
        meters = Meters()
        meters.emit(make_request_ended())
        writer = writer_at(path, meters)
        page = render_metrics(await writer.read()).body.decode()
        await writer.aclose()
    assert 'stepwell_requests_total{class="general",layer="exact",outcome="hit"} 14.0\n' in page
    assert read_totals(path).values[HITS] == 14


def test_the_kernel_says_who_runs(tmp_path: Path) -> None:
    """A killed process is folded by whoever opens the ledger next; a living one is not."""
    path = tmp_path / "ledger.sqlite"
    with workers(path, 1) as (worker,):
        worker.do("count 5")
        worker.do("flush")
        assert others_open(path) == {"boot"}
        worker.kill()
        assert others_open(path) == set()
    assert read_totals(path).values[HITS] == 5


def others_open(path: Path) -> set[str]:
    """Open the ledger as another program does, and return whose boots are left beside its own."""
    mark = Mark(path, "another program")
    Ledger.open(path, mark, HandClock()).close()
    mark.take_down()
    with closing(sqlite3.connect(path)) as connection:
        boots = {boot for (boot,) in connection.execute("SELECT boot FROM boots")}
    return boots - {mark.boot}


def test_workers_that_start_at_once(tmp_path: Path) -> None:
    """Workers that make and write the ledger at the same moment lose nothing and see no error."""
    path = tmp_path / "ledger.sqlite"
    with workers(path, 4) as started:
        for _ in range(5):
            for worker in started:
                worker.tell("count 3")
                worker.tell("flush")
            for worker in started:
                assert [worker.answer(), worker.answer()] == ["[]", "[]"]
    assert read_totals(path).values[HITS] == 4 * 5 * 3


async def wait_for_a_hit(path: Path) -> None:
    # Only the file can tell: what writes it is a thread, as in use it is another process.
    async with asyncio.timeout(30):
        while not path.exists() or HITS not in read_totals(path).values:  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)


async def test_it_posts_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once started, counts reach the file without being asked for."""
    monkeypatch.setattr(ledger_writer, "INTERVAL_SECONDS", 0.01)
    meters = Meters()
    meters.emit(make_request_ended())
    writer = writer_at(tmp_path / "ledger.sqlite", meters)
    writer.start()
    await wait_for_a_hit(tmp_path / "ledger.sqlite")
    await writer.aclose()


async def test_a_broken_gauge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gauge that raises is reported, and the posting goes on once it no longer does."""
    monkeypatch.setattr(ledger_writer, "INTERVAL_SECONDS", 0.01)
    meters, events, gauges = Meters(), Kept(), Gauges("1")
    meters.emit(make_request_ended())

    def read() -> float:
        if not events.events:
            raise ZeroDivisionError
        return 0

    gauges.watch(IN_FLIGHT, read)
    path = tmp_path / "ledger.sqlite"
    writer = LedgerWriter(path, boot="boot", meters=meters, gauges=gauges, events=events)
    writer.start()
    await wait_for_a_hit(path)
    await writer.aclose()
    assert events.events == [Degraded("telemetry.ledger", "ZeroDivisionError()")]


async def test_the_last_counts_are_posted(tmp_path: Path) -> None:
    """Closing in good order loses nothing, not even the last second."""
    path = tmp_path / "ledger.sqlite"
    meters = Meters()
    writer = writer_at(path, meters)
    writer.start()
    meters.emit(make_request_ended())
    await writer.aclose()
    await writer.aclose()
    assert read_totals(path).values[HITS] == 1


async def test_an_unusable_ledger_is_no_callers_trouble(tmp_path: Path) -> None:
    """Without a usable file the metrics page has this worker's counts, and says what is wrong."""
    meters, events = Meters(), Kept()
    meters.emit(make_request_ended())
    writer = writer_at(tmp_path / "missing" / "ledger.sqlite", meters, events)
    reading = await writer.read()
    assert reading.counters == meters.values()
    assert events.events == [Degraded("telemetry.ledger", "unable to open database file")]
    await writer.aclose()


async def test_readings_of_many_workers_at_once(tmp_path: Path) -> None:
    """Scrapes that reach one worker and then another never see a counter fall."""
    path = tmp_path / "ledger.sqlite"
    all_meters = [Meters() for _ in range(3)]
    writers = [writer_at(path, meters) for meters in all_meters]
    shown: list[float] = []
    for turn in range(30):
        for meters in all_meters:
            meters.emit(make_request_ended())
        reading = await writers[turn % 3].read()
        shown.append(reading.counters[HITS])
    assert shown == sorted(shown)
    await asyncio.gather(*(writer.flush() for writer in writers))
    assert [(await writer.read()).counters[HITS] for writer in writers] == [90, 90, 90]
    for writer in writers:
        await writer.aclose()
