"""Runs the gateway: models of its own, if they are used, and the worker processes."""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

from uvicorn import Config, Server
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from stepwell.assembly.checks import (
    check,
    data_directory,
    make_usable,
    shortages,
    warnings,
)
from stepwell.assembly.embedder import host_embedder, why_off
from stepwell.assembly.engines import running_engines
from stepwell.assembly.house import Plan
from stepwell.assembly.listening import listening
from stepwell.assembly.secret import secret_of
from stepwell.assembly.settings import Settings
from stepwell.assembly.worker import Worker
from stepwell.gateway.protocol import GatewayProtocol

Say = Callable[[str], None]
"""Takes a line of progress."""


def serve(settings: Settings, say: Say) -> None:
    """Serve until a signal says stop; then finish what is under way.

    Args:
        settings: Checked here as far as they can be before anything starts.
        say: Hears what is being done, and where the gateway listens.

    Raises:
        ConfigError: A setting cannot be used, the address is taken, or a model of its own
            cannot be started.
    """
    data_dir = data_directory(settings)
    make_usable(data_dir)
    secret = secret_of(settings, data_dir)
    check(settings, secret)
    for warning in (*warnings(settings), *shortages(data_dir)):
        say(f"Warning: {warning}")
    signal.signal(signal.SIGTERM, _leave)
    here = listening(settings.server.host, settings.server.port)
    with (
        here as sock,
        running_engines(settings.upstreams, data_dir, say) as engines,
        host_embedder(settings, say) as embedder,
    ):
        if embedder is None and settings.semantic.embedder == "auto":
            say(f"Answers to other words are off: {why_off()}")
        plan = Plan(settings, data_dir, secret, engines, embedder)
        host, port = sock.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        say(f"Stepwell listens on http://{shown}:{port}/v1")
        _run(plan, sock)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Leave through all ``finally`` blocks. Uvicorn raises the signal again when it has stopped."""
    sys.exit(0)


def _run(plan: Plan, sock: socket.socket) -> None:
    server = plan.settings.server
    config = Config(
        partial(Worker, plan),
        factory=True,
        http=GatewayProtocol,
        ws="none",
        lifespan="on",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level=logging.WARNING,
        workers=server.workers,
        timeout_keep_alive=int(server.keep_alive_seconds),
        timeout_graceful_shutdown=int(server.shutdown_seconds),
        backlog=4096,
    )
    if server.workers == 1:
        Server(config).run(sockets=[sock])
    else:
        supervisor = Multiprocess(config, sockets=[sock])
        supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            sys.exit(STARTUP_FAILURE)  # as one worker does
