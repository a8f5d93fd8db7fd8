"""The request log: whole lines, and never a wait."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepwell.core.events import Bypassed, Degraded, Event, Resumed, StageTimed, UpstreamFailed
from stepwell.telemetry import log
from stepwell.telemetry.fanout import Fanout
from stepwell.telemetry.lines import MAX_LINE_BYTES, MAX_PENDING_BYTES
from stepwell.telemetry.log import HOLD_BYTES, HOLD_EVENTS, RequestLog
from stepwell.testing.clock import HandClock
from stepwell.testing.events import make_request_ended


class Kept:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[int]:
    """A file open to append."""
    descriptor = os.open(tmp_path / "log", os.O_CREAT | os.O_APPEND | os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def written(descriptor: int) -> list[bytes]:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).splitlines(keepends=True)


async def logged(descriptor: int, *events: Event) -> list[bytes]:
    """Log ``events`` at second 1000.25 and return the lines."""
    lost = Kept()
    request_log = RequestLog(descriptor, events=lost, clock=HandClock(1_000.25))
    for event in events:
        request_log.emit(event)
    await request_log.aclose()
    assert lost.events == []
    return written(descriptor)


async def test_a_request(log_file: int) -> None:
    """A request is one JSON object on one line, with its trail and without any text of it."""
    (line,) = await logged(log_file, make_request_ended())
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "time": "1970-01-01T00:16:40.250Z",
        "event": "request",
        "result": "hit",
        "layer": "exact",
        "class": "general",
        "endpoint": "chat/completions",
        "model": "model",
        "upstream": "upstream",
        "status": 200,
        "stream": False,
        "seconds": 3e-05,
        "first_byte_seconds": 3e-05,
        "prompt_tokens": 7,
        "completion_tokens": 11,
        "cached_tokens": None,
        "saved_seconds": 0.5,
        "trail": "exact: hit in memory",
        "tenant": "0a1b2c3d",
    }


async def test_failures(log_file: int) -> None:
    """Failures have lines of their own; what is only counted has none."""
    lines = await logged(
        log_file,
        Degraded("store.disk", "no space left"),
        StageTimed("parse", 1e-06),
        UpstreamFailed("local", "timeout"),
    )
    time = "1970-01-01T00:16:40.250Z"
    assert [json.loads(line) for line in lines] == [
        {
            "time": time,
            "event": "degraded",
            "component": "store.disk",
            "error": "no space left",
        },
        {"time": time, "event": "upstream_failed", "upstream": "local", "kind": "timeout"},
    ]


async def test_what_lasts_is_said_once_a_minute(log_file: int) -> None:
    """Whatever else fails in between; the end says how often it failed since its last line."""
    clock, lost = HandClock(), Kept()
    request_log = RequestLog(log_file, events=lost, clock=clock)
    late, full = Degraded("semantic.embedder", "late"), Degraded("store.disk", "full")
    for problem, seconds in [(late, 1), (full, 1), (late, 1), (late, 60), (late, 1), (late, 1)]:
        request_log.emit(problem)
        clock.seconds += seconds
    request_log.emit(Degraded("semantic.embedder", "gone"))
    await request_log.aclose()
    lines = [json.loads(line) for line in written(log_file)]
    assert [(line["error"], line.get("unsaid")) for line in lines] == [
        ("late", None),
        ("full", None),
        ("late", 2),
        ("gone", None),
        ("late", 1),
    ]


async def test_a_bypass_explains_what_fails(log_file: int) -> None:
    """Its failures are said only if it lasts; when it is over, the next is a new one."""
    clock, lost = HandClock(), Kept()
    request_log = RequestLog(log_file, events=lost, clock=clock)
    broken, other = Degraded("store.redis", "broken"), Degraded("store.disk", "full")
    steps: list[tuple[Event, int]] = [
        (broken, 1),
        (Bypassed("redis", "gone"), 1),
        (Degraded("store.redis", "gone"), 1),
        (broken, 1),
        (other, 57),
        (Degraded("store.redis", "gone"), 1),
        (Resumed("redis", 61.0), 1),
        (broken, 0),
    ]
    for event, seconds in steps:
        request_log.emit(event)
        clock.seconds += seconds
    await request_log.aclose()
    lines = [json.loads(line) for line in written(log_file)]
    assert [(line["event"], line.get("error"), line.get("unsaid")) for line in lines] == [
        ("degraded", "broken", None),
        ("bypassed", None, None),
        ("degraded", "full", None),
        ("degraded", "gone", 1),
        ("resumed", None, None),
        ("degraded", "broken", None),
    ]


async def test_problems_without_end(log_file: int) -> None:
    """Problems that are all different are all said, and are not remembered for ever."""
    problems = [Degraded("store.disk", f"no. {number}") for number in range(100)]
    assert len(await logged(log_file, *problems, problems[0], problems[-1])) == 101 + 1


@pytest.mark.parametrize("sign", ["\n", "\r", "\x00", "\x1b[2J", "\u2028", '"', "模"])
async def test_signs_do_not_break_lines(log_file: int, sign: str) -> None:
    """Whatever a caller puts in a name, a line is one object and has the name in it."""
    lines = await logged(log_file, make_request_ended(model=f"a{sign}b"), make_request_ended())
    assert [json.loads(line)["model"] for line in lines] == [f"a{sign}b", "model"]
    assert not any(code < 0x20 for line in lines for code in line[:-1])


@pytest.mark.parametrize("name", ["\x01" * 5000, "模" * 5000, "a\ud800b"])
async def test_impossible_names(log_file: int, name: str) -> None:
    """An over-long name is cut, and what is no text is replaced; the line stays short."""
    (line,) = await logged(log_file, make_request_ended(model=name, trail=name))
    assert len(line) <= MAX_LINE_BYTES
    kept = name.encode(errors="replace").decode()
    assert json.loads(line)["model"] == (kept if len(kept) < 60 else kept[:59] + "…")


async def test_full_buffer_is_handed_over_at_once(log_file: int) -> None:
    """Events do not wait for the timer once there are enough: nothing is lost, the order stays."""
    number = HOLD_BYTES // 100 + HOLD_EVENTS // 2
    events = [make_request_ended(trail=str(index)) for index in range(number)]
    lines = await logged(log_file, *events)
    assert [json.loads(line)["trail"] for line in lines] == [str(i) for i in range(number)]


async def test_an_event_that_cannot_be_written_takes_few_along(log_file: int) -> None:
    """What came before it is written, and so is all that comes after."""
    request_log = RequestLog(log_file, events=Kept())
    sink = Fanout(request_log)
    for number in range(4 * HOLD_EVENTS):
        event = make_request_ended(trail=str(number))
        if number == HOLD_EVENTS + 5:
            event.status = 2**70
        sink.emit(event)
    await request_log.aclose()
    trails = [int(json.loads(line)["trail"]) for line in written(log_file)]
    assert trails == [*range(HOLD_EVENTS + 5), *range(2 * HOLD_EVENTS, 4 * HOLD_EVENTS)]
    assert sink.failures == 1


async def test_a_reader_that_stops() -> None:
    """A full pipe does not hold up the loop: what does not fit is lost, and said to be."""
    read_end, write_end = os.pipe()
    lost = Kept()
    request_log = RequestLog(write_end, events=lost)
    number = 0
    while not lost.events:
        request_log.emit(make_request_ended(trail=str(number)))
        number += 1
    with ThreadPoolExecutor() as pool, os.fdopen(read_end, "rb") as reader:
        reading = pool.submit(reader.readlines)
        await request_log.aclose()
        os.close(write_end)
        lines = reading.result()
    (report,) = lost.events
    assert report == Degraded("telemetry.log", f"{number - len(lines)} lines lost")
    assert [json.loads(line)["trail"] for line in lines] == [str(i) for i in range(len(lines))]
    assert sum(map(len, lines)) <= MAX_PENDING_BYTES


async def test_nobody_reads() -> None:
    """Lines into a closed pipe are lost, said to be, and nothing is raised."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    lost = Kept()
    request_log = RequestLog(write_end, events=lost)
    request_log.emit(make_request_ended())
    request_log.emit(make_request_ended())
    await request_log.aclose()
    os.close(write_end)
    assert lost.events == [Degraded("telemetry.log", "2 lines lost")]


async def test_the_end_does_not_wait_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing gives up on a reader that takes nothing, and says so."""
    monkeypatch.setattr(log, "_CLOSE_SECONDS", 0.0)
    read_end, write_end = os.pipe()
    events = Kept()
    request_log = RequestLog(write_end, events=events)
    for _ in range(1_000):
        request_log.emit(make_request_ended())
    await request_log.aclose()
    assert events.events == [Degraded("telemetry.log", "last lines not taken before the end")]
    with os.fdopen(read_end, "rb") as reader:
        for _ in range(1_000):
            reader.readline()
        request_log._writer.close(timeout_seconds=30)
        os.close(write_end)
