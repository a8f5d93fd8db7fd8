"""How far a run has come."""

import io

from stepwell.study.progress import Progress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Stopwatch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_short_run_says_nothing() -> None:
    stream, watch = Terminal(), Stopwatch()
    progress = Progress("pairs", stream, watch)
    watch.seconds = 0.1
    progress.update(10, 0.5)
    progress.end()
    assert stream.getvalue() == ""


def test_a_bar_with_rate_and_time_left_which_goes_away() -> None:
    stream, watch = Terminal(), Stopwatch()
    progress = Progress("pairs", stream, watch)
    watch.seconds = 60.0
    progress.update(6_000, 0.25)
    assert stream.getvalue() == (
        "\r[######..................]  25%  6,000 pairs, 100/s, 3 min 00 s left"
    )
    progress.end()
    assert stream.getvalue().endswith("\r" + " " * 68 + "\r")


def test_lines_where_there_is_no_terminal() -> None:
    stream, watch = io.StringIO(), Stopwatch()
    progress = Progress("pairs", stream, watch)
    for second in range(25):
        watch.seconds = float(second)
        progress.update(second, None)
    progress.end()
    assert stream.getvalue().splitlines() == ["10 pairs, 1/s", "20 pairs, 1/s"]


def test_durations() -> None:
    assert [duration(s) for s in (1.4, 61, 7_260)] == ["1 s", "1 min 01 s", "2 h 01 min"]
