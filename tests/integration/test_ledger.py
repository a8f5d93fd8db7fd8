"""The ledger's file keeps every count, over workers and restarts, and stays small."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.core.errors import StoreUnavailable
from stepwell.telemetry.ledger import GAUGE_LIFETIME_SECONDS, Ledger, move_aside, read_totals
from stepwell.telemetry.ledger_file import FORMAT, DamagedLedger
from stepwell.telemetry.ledger_marks import Mark
from stepwell.telemetry.series import Series
from stepwell.testing.clock import HandClock

HITS = Series("stepwell_requests_total", (("outcome", "hit"), ("class", "常见问题")))
SECONDS = Series("stepwell_saved_seconds_total", (("layer", "exact"),))
IN_FLIGHT = Series("stepwell_in_flight")


class Opener:
    """Opens ledgers at one path, as many workers would, and closes them all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HandClock()
        self._workers: list[tuple[Ledger, Mark]] = []

    def __call__(self, boot: str = "boot") -> Ledger:
        mark = Mark(self.path, boot)
        ledger = Ledger.open(self.path, mark, self.clock)
        self._workers.append((ledger, mark))
        return ledger

    def close(self) -> None:
        """Let all workers end, as the kernel would."""
        for ledger, mark in self._workers:
            ledger.close()
            mark.take_down()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path / "ledger.sqlite")
    yield opener
    opener.close()


def test_sums_over_workers_and_boots(opened: Opener) -> None:
    """Workers of a boot see each other's counts; the totals have those of all boots."""
    first, second, later = opened("monday"), opened("monday"), opened("tuesday")
    first.add({HITS: 2, SECONDS: 0.5}, {})
    second.add({HITS: 3}, {})
    second.add({HITS: 10}, {})
    later.add({HITS: 100}, {})
    assert first.counters() == second.counters() == {HITS: 15, SECONDS: 0.5}
    assert later.counters() == {HITS: 100}
    totals = read_totals(opened.path)
    assert totals.values == {HITS: 115, SECONDS: 0.5}
    assert totals.since == opened.clock.now()


def test_counts_survive_a_restart(opened: Opener) -> None:
    """What was added is there when the file is opened again, for the same boot or another."""
    ledger = opened("monday")
    ledger.add({HITS: 2}, {})
    ledger.close()
    assert opened("monday").counters() == {HITS: 2}
    assert opened("tuesday").counters() == {}
    assert read_totals(opened.path).values == {HITS: 2}


def boots_apart(path: Path) -> int:
    """Return how many boots have counts of their own, the past included."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (boots,) = connection.execute("SELECT count(DISTINCT boot) FROM counters").fetchone()
    return int(boots)


def test_boots_that_ended_are_folded(opened: Opener) -> None:
    """However often a server starts, only what runs has rows and a mark of its own."""
    for number in range(20):
        opened.close()
        ledger = opened(f"boot {number}")
        ledger.add({HITS: 1, SECONDS: 0.25}, {})
    assert boots_apart(opened.path) == 2
    assert len(list(opened.path.parent.glob("*.run-*"))) == 1
    assert read_totals(opened.path).values == {HITS: 20, SECONDS: 5.0}
    assert ledger.counters() == {HITS: 1, SECONDS: 0.25}


def test_a_running_server_keeps_its_counts(opened: Opener) -> None:
    """However many others open the ledger, what a server shows does not shrink."""
    running = opened("gateway")
    running.add({HITS: 1}, {})
    for number in range(10):
        opened(f"program {number}").add({HITS: 10}, {})
    assert running.counters() == {HITS: 1}
    running.add({HITS: 1}, {})
    assert running.counters() == {HITS: 2}
    assert boots_apart(opened.path) == 11
    assert read_totals(opened.path).values == {HITS: 102}
    opened.close()
    opened("last")
    assert boots_apart(opened.path) == 1
    assert read_totals(opened.path).values == {HITS: 102}


def test_a_boot_runs_as_long_as_one_of_its_workers(opened: Opener) -> None:
    """One worker's end takes neither its counts nor the others' from the boot."""
    ended = opened("gateway")
    ended.add({HITS: 1}, {})
    staying = Mark(opened.path, "gateway")
    ledger = Ledger.open(opened.path, staying, opened.clock)
    opened.close()
    opened("program")
    assert ledger.counters() == {HITS: 1}
    ledger.close()
    staying.take_down()


def test_a_mark_that_cannot_be_asked(opened: Opener) -> None:
    """In doubt a boot runs: one whose mark cannot be opened is not folded."""
    opened("gateway").add({HITS: 1}, {})
    opened.close()
    mark = opened.path.with_name("ledger.sqlite.run-gateway")
    mark.unlink()
    mark.mkdir()
    opened("program").add({HITS: 10}, {})
    assert boots_apart(opened.path) == 2
    mark.rmdir()
    opened("next")
    assert read_totals(opened.path).values == {HITS: 11}


def test_gauges_of_other_live_workers(opened: Opener) -> None:
    """A worker sees the others' levels until they leave, or have not renewed them for long."""
    one, two, three = opened(), opened(), opened()
    stranger = opened("another server")
    stranger.add({}, {IN_FLIGHT: 1000})
    for ledger, level in ((one, 1), (two, 10), (three, 100)):
        ledger.add({}, {IN_FLIGHT: level})
    assert one.other_gauges() == {IN_FLIGHT: 110}
    two.add({}, {IN_FLIGHT: 20})
    assert one.other_gauges() == {IN_FLIGHT: 120}
    three.leave()
    assert one.other_gauges() == {IN_FLIGHT: 20}
    opened.clock.seconds += GAUGE_LIFETIME_SECONDS + 1
    assert one.other_gauges() == {}


def test_a_step_of_the_clock_leaves_no_ghosts(opened: Opener) -> None:
    """A dead worker's levels do not stay because the clock was set back since."""
    dead, alive = opened(), opened()
    dead.add({}, {IN_FLIGHT: 1})
    opened.clock.seconds -= 3600
    assert alive.other_gauges() == {}


def test_nothing_is_half_added(opened: Opener) -> None:
    """Counts that cannot all be added are not added at all."""
    ledger = opened()
    with pytest.raises(StoreUnavailable):
        ledger.add({HITS: 1, SECONDS: float("nan")}, {})
    assert ledger.counters() == {}


def test_totals_of_no_ledger(tmp_path: Path) -> None:
    """Reading the totals makes no file where there is none."""
    with pytest.raises(StoreUnavailable):
        read_totals(tmp_path / "ledger.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_other_formats_are_refused_untouched(opened: Opener) -> None:
    """A ledger of a newer version is neither read nor changed."""
    opened().close()
    with sqlite3.connect(opened.path, isolation_level=None) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    before = opened.path.read_bytes()
    with pytest.raises(DamagedLedger, match=f"format {FORMAT + 1} instead of {FORMAT}"):
        opened()
    with pytest.raises(DamagedLedger):
        read_totals(opened.path)
    assert opened.path.read_bytes() == before


def test_one_worker_moves_a_damaged_file(tmp_path: Path) -> None:
    """Of those that find the damage one renames the file, with its log; a newer file stays."""
    path, log = tmp_path / "ledger.sqlite", tmp_path / "ledger.sqlite-wal"
    path.write_text("damaged")
    log.write_text("its log")
    inode = path.stat().st_ino
    aside = move_aside(path, inode)
    assert aside == tmp_path / f"ledger.sqlite.damaged-{inode}"
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        aside.name: "damaged",
        f"{aside.name}-wal": "its log",
    }
    assert move_aside(path, inode) is None
    path.write_text("new")
    assert move_aside(path, inode) is None
    assert move_aside(path, inode + 1_000_000) is None
    assert path.read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 3
