"""Lines written from a thread stay whole and in order."""

import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from stepwell.telemetry.lines import MAX_LINE_BYTES, LineWriter, whole_lines


@given(st.lists(st.integers(0, 2 * MAX_LINE_BYTES).map(lambda size: b"x" * size + b"\n")))
def test_writes_take_whole_lines(lines: list[bytes]) -> None:
    """A write has the lines in order, and is one that a pipe takes whole unless it is one line."""
    chunks = whole_lines(bytearray().join(lines))
    assert bytearray().join(chunks) == b"".join(lines)
    for chunk in chunks:
        assert chunk.endswith(b"\n")
        assert len(chunk) <= MAX_LINE_BYTES or chunk.count(b"\n") == 1


def test_two_writers_on_one_pipe() -> None:
    """Lines of two writers that share a pipe, as workers share standard output, do not mix."""
    read_end, write_end = os.pipe()
    each = 2_000
    writers = [LineWriter(write_end) for _ in "ab"]
    with os.fdopen(read_end, "rb") as reader:
        lines: list[bytes] = []
        reading = threading.Thread(target=lambda: lines.extend(reader))
        reading.start()
        for writer, sign in zip(writers, (b"a", b"b"), strict=True):
            for start in range(0, each, 100):
                numbers = range(start, start + 100)
                writer.offer(bytearray().join(sign * 200 + b" %d\n" % i for i in numbers))
        assert [writer.close(timeout_seconds=30) for writer in writers] == [True, True]
        os.close(write_end)
        reading.join()
    for sign in (b"a", b"b"):
        assert [line for line in lines if line.startswith(sign)] == [
            sign * 200 + b" %d\n" % i for i in range(each)
        ]
    assert len(lines) == 2 * each


def test_close_gives_up() -> None:
    """Closing waits no longer than it is told for a reader that does not come."""
    read_end, write_end = os.pipe()
    writer = LineWriter(write_end)
    writer.offer(bytearray(b"x" * 1023 + b"\n") * 1000)
    assert not writer.close(timeout_seconds=0)
    with os.fdopen(read_end, "rb") as reader:
        for _ in range(1000):
            reader.readline()
        assert writer.close(timeout_seconds=30)
        os.close(write_end)
