"""Trouble with the ledger is reported, and costs no counts that memory still has."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.core.events import Degraded
from stepwell.telemetry.catalogue import JUDGED
from stepwell.telemetry.gauges import Levels
from stepwell.telemetry.ledger import read_totals
from stepwell.telemetry.ledger_anew import judge_anew
from stepwell.telemetry.ledger_session import RETRY_SECONDS, LedgerSession
from stepwell.telemetry.precision import live_precision
from stepwell.telemetry.series import Reading, Series
from stepwell.testing.clock import HandClock

HITS = Series("stepwell_requests_total", (("outcome", "hit"),))
IN_FLIGHT = Series("stepwell_in_flight")
ENTRIES = Series("stepwell_entries", (("tier", "disk"),))
RIGHT, WRONG, OTHER_CLASS = (
    Series(JUDGED.name, (("verdict", verdict), ("by", "shadow"), ("class", request_class)))
    for verdict, request_class in (("right", "faq"), ("wrong", "faq"), ("right", "general"))
)
NO_LEVELS = Levels({}, {})


class Server:
    """Worker sessions of one boot, and the clock they see."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = HandClock()
        self._sessions: list[LedgerSession] = []

    def worker(self, boot: str = "boot") -> LedgerSession:
        session = LedgerSession(self.path, boot, self.clock)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        for session in self._sessions:
            session.close({})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "data").mkdir()
    server = Server(tmp_path / "data" / "ledger.sqlite")
    yield server
    server.close()


def hits(reading: Reading) -> float:
    return reading.counters.get(HITS, 0)


def test_only_differences_are_posted(server: Server) -> None:
    """Counters are posted as they stand; the ledger gets each count once."""
    worker = server.worker()
    for count in (2, 2, 5):
        worker.post({HITS: count}, {})
    assert read_totals(server.path).values == {HITS: 5}
    assert worker.take_problems() == []


def test_a_reading_is_the_sum(server: Server) -> None:
    """Counts and own levels add up over workers; shared levels are taken once."""
    one, two = server.worker(), server.worker()
    one.post({HITS: 2}, {IN_FLIGHT: 3})
    reading = two.read({HITS: 40}, Levels({IN_FLIGHT: 50}, {ENTRIES: 7}))
    assert reading == Reading({HITS: 42}, {IN_FLIGHT: 53, ENTRIES: 7})


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b"not a database at all, but long enough to be one" * 99, "file is not a database"),
        (b"", "format 0 instead of 1"),
    ],
)
def test_a_damaged_file_is_moved_aside(server: Server, damage: bytes, says: str) -> None:
    """Counting goes on in a new file; the old one is kept, and the operator is told."""
    server.path.write_bytes(damage)
    worker = server.worker()
    worker.post({HITS: 2}, {})
    assert read_totals(server.path).values == {HITS: 2}
    (aside,) = server.path.parent.glob("*.damaged-*")
    assert aside.read_bytes() == damage
    assert worker.take_problems() == [
        Degraded("telemetry.ledger", f"{says}; moved to {aside.name}")
    ]


def test_damage_inside_the_file(server: Server) -> None:
    """Damage that only a check finds is found at the start, with its write-ahead log."""
    before = server.worker()
    before.post({Series(f"stepwell_{number}_total"): 1.0 for number in range(2_000)}, {})
    before.close({})
    content = bytearray(server.path.read_bytes())
    for page in range(4, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    server.path.write_bytes(content)
    server.path.with_name("ledger.sqlite-wal").write_bytes(b"stale")
    worker = server.worker()
    assert hits(worker.read({HITS: 2}, NO_LEVELS)) == 2
    assert len(worker.take_problems()) == 1
    assert read_totals(server.path).values == {HITS: 2}


def test_no_place_for_the_file(server: Server) -> None:
    """Without a directory counts stay in memory; once there is one, all of them are posted."""
    shutil.rmtree(server.path.parent)
    worker = server.worker()
    worker.post({HITS: 2}, {})
    assert worker.take_problems() == [Degraded("telemetry.ledger", "unable to open database file")]
    assert hits(worker.read({HITS: 3}, NO_LEVELS)) == 3
    assert worker.take_problems() == []  # it does not try, and complain, at every turn
    server.path.parent.mkdir()
    server.clock.seconds += RETRY_SECONDS
    worker.post({HITS: 4}, {})
    assert worker.take_problems() == []
    assert read_totals(server.path).values == {HITS: 4}


def test_a_writer_that_does_not_let_go(server: Server) -> None:
    """A ledger that stays locked is given up for a while, and then gets everything."""
    worker = server.worker()
    worker.post({HITS: 1}, {})
    other = sqlite3.connect(server.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    worker.post({HITS: 2}, {})
    assert worker.take_problems() == [Degraded("telemetry.ledger", "database is locked")]
    other.execute("ROLLBACK")
    other.close()
    server.clock.seconds += RETRY_SECONDS
    assert hits(worker.read({HITS: 3}, NO_LEVELS)) == 3
    assert worker.take_problems() == []


def test_a_ledger_let_go_for_a_while_is_still_the_servers(server: Server) -> None:
    """Others that open it meanwhile do not take a server that runs for one that ended."""
    worker = server.worker()
    worker.post({HITS: 1}, {})
    other = sqlite3.connect(server.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    worker.post({HITS: 2}, {})
    other.execute("ROLLBACK")
    other.close()
    server.worker("program").post({HITS: 10}, {})
    server.clock.seconds += RETRY_SECONDS
    assert hits(worker.read({HITS: 3}, NO_LEVELS)) == 3
    assert hits(server.worker().read({}, NO_LEVELS)) == 3


def test_who_counted_nothing_leaves_no_trace(server: Server) -> None:
    """A command that only looks makes no ledger, and no mark."""
    server.worker().close({})
    assert list(server.path.parent.iterdir()) == []


def test_closing_does_not_wait_to_try_again(server: Server) -> None:
    """What could not be posted a moment ago is tried once more at the end."""
    shutil.rmtree(server.path.parent)
    worker = server.worker()
    worker.post({HITS: 1}, {})
    server.path.parent.mkdir()
    worker.close({HITS: 2})
    assert read_totals(server.path).values == {HITS: 2}


def test_a_file_deleted_under_its_workers(server: Server) -> None:
    """The new file gets all that its live workers have counted, not only what came since."""
    one, two = server.worker(), server.worker()
    one.post({HITS: 1}, {})
    two.post({HITS: 10}, {})
    for file in server.path.parent.iterdir():
        file.unlink()
    one.post({HITS: 2}, {})
    assert hits(two.read({HITS: 20}, NO_LEVELS)) == 22
    assert hits(one.read({HITS: 3}, NO_LEVELS)) == 23
    assert one.take_problems() == two.take_problems() == []


def test_half_a_ledger_deleted(server: Server) -> None:
    """A write-ahead log without its ledger is not replayed into a new one."""
    worker = server.worker()
    worker.post({HITS: 1}, {})
    server.path.unlink()
    assert hits(worker.read({HITS: 2}, NO_LEVELS)) == 2
    assert worker.take_problems() == [
        Degraded(
            "telemetry.ledger",
            "ledger.sqlite-wal is left of a ledger that was deleted: delete it too",
        )
    ]
    server.path.with_name("ledger.sqlite-wal").unlink()
    server.clock.seconds += RETRY_SECONDS
    worker.post({HITS: 3}, {})
    assert worker.take_problems() == []
    assert read_totals(server.path).values == {HITS: 3}


def test_sums_do_not_fall_when_the_ledger_goes(server: Server) -> None:
    """With the ledger out of reach a reading still has what others had posted before."""
    one, two = server.worker(), server.worker()
    one.post({HITS: 10}, {})
    assert hits(two.read({HITS: 1}, NO_LEVELS)) == 11
    two.post({HITS: 2}, {})
    shutil.rmtree(server.path.parent)
    assert hits(two.read({HITS: 4}, NO_LEVELS)) == 14
    assert len(two.take_problems()) == 1


@pytest.mark.parametrize("table", ["counters", "gauges"])
def test_a_table_gone(server: Server, table: str) -> None:
    """What cannot be read is reported, and the sums are the last ones and what came since."""
    one, two = server.worker(), server.worker()
    one.post({HITS: 10}, {})
    assert hits(two.read({HITS: 1}, NO_LEVELS)) == 11
    with sqlite3.connect(server.path) as other:
        other.execute(f"DROP TABLE {table}")
    other.close()
    assert hits(two.read({HITS: 1}, NO_LEVELS)) == 11
    assert two.take_problems() == [Degraded("telemetry.ledger", f"no such table: {table}")]


def test_closing_a_ledger_that_has_become_unusable(server: Server) -> None:
    """Even the end raises nothing."""
    worker = server.worker()
    worker.post({HITS: 1}, {})
    with sqlite3.connect(server.path) as other:
        other.execute("DROP TABLE gauges")
    other.close()
    worker.close({HITS: 1})
    assert worker.take_problems() == [Degraded("telemetry.ledger", "no such table: gauges")]


def test_the_precision_outlasts_a_restart(server: Server) -> None:
    """It is that of all runs, with what this worker has not posted; counters begin anew."""
    before = server.worker("monday")
    before.post({RIGHT: 30, WRONG: 1}, {})
    before.close({RIGHT: 30, WRONG: 1})
    after = server.worker("tuesday")
    reading = after.read({RIGHT: 9}, NO_LEVELS)
    assert reading == Reading({RIGHT: 9}, live_precision({RIGHT: 39, WRONG: 1}))
    shutil.rmtree(server.path.parent)
    reading = after.read({RIGHT: 10}, NO_LEVELS)
    assert reading == Reading({RIGHT: 10}, live_precision({RIGHT: 40, WRONG: 1}))


def test_judging_anew(server: Server) -> None:
    """What a class came to is forgotten, of all runs; no counter of a running server falls."""
    ended, running = server.worker("monday"), server.worker("tuesday")
    ended.post({RIGHT: 30, WRONG: 1}, {})
    ended.close({RIGHT: 30, WRONG: 1})
    running.post({RIGHT: 4, OTHER_CLASS: 2, HITS: 7}, {})
    assert judge_anew(server.path, "faq")
    assert not judge_anew(server.path, "faq")
    counted = {RIGHT: 5, OTHER_CLASS: 2, HITS: 7}
    expected = live_precision({RIGHT: 1, OTHER_CLASS: 2})
    assert running.read(counted, NO_LEVELS) == Reading(counted, expected)
    running.close(counted)
    reading = server.worker("wednesday").read({}, NO_LEVELS)
    assert reading.gauges == expected
    assert read_totals(server.path).values[HITS] == 7


def test_closing_takes_the_levels_out(server: Server) -> None:
    """A worker that ends in good order is no longer part of the sum of levels, only of counts."""
    one, two = server.worker(), server.worker()
    one.post({HITS: 1}, {IN_FLIGHT: 3})
    one.close({HITS: 1})
    assert two.read({}, Levels({IN_FLIGHT: 4}, {})) == Reading({HITS: 1}, {IN_FLIGHT: 4})
