"""A model server that this package runs in a process of its own, watched from here."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

import msgspec

from stepwell.children.child import Child
from stepwell.children.supervisor import Supervisor
from stepwell.core.errors import ConfigError

STOP_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """How to reach an engine, as an `HttpUpstream` needs it. The same across its restarts."""

    base_url: str
    api_key: str = field(repr=False)
    model: str
    identity: str
    slots: int = 1
    """Requests it serves at once."""


class Ready(msgspec.Struct, frozen=True):
    """What a server's process says once it serves."""

    port: int
    note: str = ""
    """For the operator."""


class ServedProcess:
    """Starts a server's process, starts it again when it dies, and stops it.

    The process is a module that reads a line of settings, and writes a `Ready` as JSON once it
    serves on the loopback interface. After a restart it is asked to serve on the same port.

    Methods block: from async code, call them by `asyncio.to_thread`. A process that is *forked*
    from this one keeps the server alive by keeping its pipe open; spawned ones do not.
    """

    def __init__(
        self,
        name: str,
        module: str,
        *,
        start_timeout_seconds: float,
        report: Callable[[str], None],
    ) -> None:
        """Describe the process.

        Args:
            name: What it is, for the operator.
            module: Its full name.
            start_timeout_seconds: It is killed if it does not serve in time.
            report: Takes a line for the operator at each start, death and restart. Called from
                another thread; must not raise.
        """
        self._name = name
        self._module = module
        self._start_timeout_seconds = start_timeout_seconds
        self._report = report
        self._settings: Callable[[int], bytes] = _no_settings
        self._port = 0
        self._first_port: Future[int] = Future()
        self._supervisor = Supervisor(
            name,
            start=self._start_child,
            live=self._live,
            restarts=self._restarts,
            grace_seconds=STOP_GRACE_SECONDS,
            report=report,
        )

    @property
    def pid(self) -> int | None:
        """Process id of the running child."""
        return self._supervisor.pid

    def start(self, settings: Callable[[int], bytes]) -> int:
        """Start the process and return its port when it serves. Once in this object's life.

        Args:
            settings: Returns the line of settings for a port; 0: it may take any.

        Raises:
            ConfigError: It cannot run here; the message holds what it said.
        """
        self._settings = settings
        self._supervisor.start()
        return self._first_port.result()

    def stop(self) -> None:
        """Stop it; requests in progress break off. Returns when the process is gone."""
        self._supervisor.stop()

    def _start_child(self) -> Child:
        return Child(self._module, self._settings(self._port))

    def _live(self, child: Child) -> bool:
        """Wait until a child serves; the next ones are asked to serve on the same port."""
        ready = _ready_in(child.ready_line(self._start_timeout_seconds))
        if ready is None:
            return False
        self._port = ready.port
        note = f"; {ready.note}" if ready.note else ""
        self._report(f"{self._name}: serves on port {ready.port}{note}")
        if not self._first_port.done():
            self._first_port.set_result(ready.port)
        return True

    def _restarts(self, ended: str) -> bool:
        """Return whether there has been a child that served; else `start` fails, once for all."""
        if self._first_port.done():
            return True
        self._first_port.set_exception(ConfigError(f"the {self._name} did not start: {ended}"))
        return False


def _no_settings(_: int) -> bytes:
    return b"{}"


def _ready_in(line: bytes) -> Ready | None:
    """Return what a child says; ``None`` if it does not say that it serves."""
    try:
        return msgspec.json.decode(line, type=Ready)
    except msgspec.MsgspecError:
        return None
