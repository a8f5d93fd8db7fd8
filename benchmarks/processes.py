"""Server processes to be measured, which always get stopped.

Linux only: CPU time and memory of a server, and of all processes it starts, come from ``/proc``.
With two CPUs or more, a server has the first to itself and the load generator the others, so that
neither waits for the other.
"""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType

PROJECT = Path(__file__).parents[1]
CPUS = sorted(os.sched_getaffinity(0))
START_SECONDS = 120.0
STOP_SECONDS = 15.0

_DROPPED = frozenset({"PYTHONDONTWRITEBYTECODE", "STEPWELL_CONFIG"})
"""Variables no server gets: without bytecode some compile modules again and again, and settings of
whoever runs the benchmark are not what is measured."""


@dataclass(frozen=True)
class Server:
    """A server process, and all those it started."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Base URL, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """Return the CPU time, user and system, in steps of a clock tick (10 ms)."""
        ticks = sum(int(fields[11]) + int(fields[12]) for fields in self._processes())
        return ticks / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Return the resident memory; pages that processes share count for each."""
        return sum(int(fields[21]) for fields in self._processes()) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Return how many files and sockets are open."""
        return self._entries("fd")

    def threads(self) -> int:
        """Return how many threads there are."""
        return self._entries("task")

    def _entries(self, directory: str) -> int:
        directories = [Path(f"/proc/{pid}/{directory}") for pid in self._tree()]
        return sum(1 for found in directories for _ in found.iterdir())

    def _processes(self) -> list[list[str]]:
        """Return the fields of ``/proc/PID/stat`` after the name, of each process."""
        return list(self._tree().values())

    def _tree(self) -> dict[int, list[str]]:
        """Return the same by process number."""
        found: dict[int, list[str]] = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = file.read_text()
            except OSError:
                continue  # It has ended.
            found[int(file.parent.name)] = text.rpartition(")")[2].split()
        tree: dict[int, list[str]] = {}
        level = {self.process.pid} & found.keys()
        while level:
            tree |= {pid: found[pid] for pid in level}
            level = {pid for pid, fields in found.items() if int(fields[1]) in level}
        return tree


@contextmanager
def serving(
    command: Sequence[str],
    *,
    port: int,
    log: Path,
    ready_path: str = "/",
    environment: Mapping[str, str] | None = None,
    cpus: Sequence[int] = CPUS[:1],
) -> Iterator[Server]:
    """Run a server; leave with all its processes stopped.

    Args:
        command: Program and arguments.
        port: Where it will listen.
        log: File for all it writes.
        ready_path: It is ready once a GET of this path is answered, and by no 5xx.
        environment: Variables on top of this process's.
        cpus: Where it may run.

    Raises:
        RuntimeError: It ended, or was not ready in time.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    with log.open("wb") as output, _on(cpus):
        process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env={**inherited, **(environment or {})},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, port, ready_path, log)
        yield Server(port, process)
    finally:
        _stop(process)


@contextmanager
def _on(cpus: Sequence[int]) -> Iterator[None]:
    """Have processes that are started inside run on ``cpus``."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def leave_the_first_cpu() -> None:
    """Keep this process, and what it starts without saying where, off the servers' CPU."""
    if len(CPUS) > 1:
        os.sched_setaffinity(0, CPUS[1:])


def exit_on_sigterm() -> None:
    """Make SIGTERM end this process in order, so that servers are stopped."""

    def leave(signum: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + signum)

    signal.signal(signal.SIGTERM, leave)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            if connection.getresponse().status < 500:
                return
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    last = log.read_text(errors="replace").splitlines()[-15:]
    raise RuntimeError("\n".join([f"{process.args!r} did not get ready:", *last]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its group, softly first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python packages here, and of wrk and nginx."""
    known = {program: _program_version(program) for program in ("wrk", "nginx")}
    for package in packages:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            known[package] = "not installed"
    return known


def _program_version(program: str) -> str:
    if shutil.which(program) is None:
        return "not installed"
    said = subprocess.run([program, "-v"], capture_output=True, check=False, text=True)
    return (said.stdout + said.stderr).splitlines()[0].strip()
