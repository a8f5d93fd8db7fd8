"""One child process: what it is told, what it says, how it ends."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.obedient_child import MODULE, Orders

from stepwell.children.child import LOG_LINES, Child

PARENT = f"""
import sys
from stepwell.children.child import Child
child = Child({MODULE!r}, {Orders(line="ready" + chr(10)).encode()!r})
child.ready_line(60)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_settings_go_in_and_the_ready_line_comes_out() -> None:
    """The child reads its settings, says that it serves, and lives until it is stopped."""
    child = Child(MODULE, Orders(line="ready\n").encode())
    assert child.ready_line(60) == b"ready\n"
    assert not child.ended_within(0)
    child.stop(60)
    assert child.ended_within(0)
    assert child.wait() == "exit code -15"


def test_a_child_that_ends_before_it_serves_says_why() -> None:
    """There is no ready line; the last lines of the complaint are kept, the first are not."""
    said = [f"line {number}" for number in range(3 * LOG_LINES)]
    child = Child(MODULE, Orders(complaint="\n".join(said), exit_code=3).encode())
    assert child.ready_line(60) == b""
    assert child.wait() == "exit code 3, after: " + "\n".join(said[-LOG_LINES:])


def test_a_module_that_is_not_there_is_told() -> None:
    """The interpreter's own words are kept, even though nobody read the settings."""
    child = Child("support.nobody", b"x" * 1_000_000)
    assert child.ready_line(60) == b""
    assert "No module named support.nobody" in child.wait()


def test_a_child_that_is_too_slow_is_killed() -> None:
    """Nobody waits for longer than allowed."""
    child = Child(MODULE, Orders().encode())
    assert child.ready_line(0) == b""
    assert child.wait() == "exit code -9"


def test_a_child_that_does_not_want_to_end_is_killed() -> None:
    """Stopping always works."""
    child = Child(MODULE, Orders(is_deaf=True, line="ready\n").encode())
    child.ready_line(60)
    child.stop(0.01)
    assert child.wait() == "exit code -9"


def test_stopping_a_child_that_has_ended_does_nothing() -> None:
    """It may have died just before."""
    child = Child(MODULE, Orders(line="ready\n").encode())
    os.kill(child.pid, signal.SIGKILL)
    assert child.ended_within(60)
    child.stop(60)
    assert child.wait() == "exit code -9"
    child.stop(60)


def test_the_current_directory_stands_in_for_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has the name of a module is not run."""
    (tmp_path / "json.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    child = Child(MODULE, Orders(line="ready\n").encode())
    assert child.ready_line(60) == b"ready\n"
    child.stop(60)
    child.wait()


def test_a_child_ends_with_its_parent() -> None:
    """A parent that is killed outright leaves no child behind."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended, _, _ = select.select([child], [], [], 60)
    os.close(child)
    assert ended == [child]


def test_a_child_that_dies_before_it_reads_says_how() -> None:
    """More settings than a pipe holds: they are never read."""
    child = Child("no.such.module", b"x" * 1_000_000)
    assert child.ready_line(60) == b""
    assert "No module named" in child.wait()
