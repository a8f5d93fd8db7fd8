"""The torch engine's process: a model, its KV cache, and HTTP on a loopback port.

Run as ``python -m stepwell.assembly.torch_process``. Reads one line of JSON, a `TorchSettings`,
from standard input, and writes one line of JSON, ``{"port": ...}``, to standard output once it
serves. It lives until its input ends, or SIGTERM comes: it breaks off what is under way, writes the
blocks that wait to be written, and ends. While it still loads, or converts, it ends just so.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import msgspec
import uvicorn

from stepwell.core.errors import StepwellError
from stepwell.engines.torch.process import TorchSettings

if TYPE_CHECKING:
    from stepwell.assembly.torch_parts import TorchParts

BACKLOG = 1024

SHUTDOWN_SECONDS = 1
"""For answers under way, once it is told to end."""

FLUSH_SECONDS = 3.0
"""For blocks that wait to be written. Those that are not written cost time later, nothing else."""

_STANDARD_INPUT, _READ_BYTES = 0, 4096


def main() -> None:
    """Serve until standard input ends."""
    logging.basicConfig(level=logging.WARNING)
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=TorchSettings)
    signal.signal(signal.SIGTERM, _leave_unserved)
    threading.Thread(target=_end_with_input, daemon=True).start()
    _quiet_libraries()
    try:
        _load_and_serve(settings)
    except StepwellError as error:
        sys.exit(str(error))
    sys.stderr.flush()
    # Not by returning: threads that compute would be waited for.
    os._exit(0)


def _leave_unserved(_number: int, _frame: FrameType | None) -> NoReturn:
    """Leave through all ``finally`` blocks: a conversion takes its folder away."""
    sys.exit(0)


def _end_with_input() -> None:
    """End this process, as SIGTERM does, when the parent closes the pipe or is no more."""
    # Not through sys.stdin: whoever holds its lock at the end makes the interpreter abort.
    while os.read(_STANDARD_INPUT, _READ_BYTES):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _load_and_serve(settings: TorchSettings) -> None:
    # Here, because whoever asks what this module is need not have torch.
    from stepwell.assembly.torch_parts import load_for, put_together  # noqa: PLC0415

    parts = put_together(settings, load_for(settings))
    asyncio.run(_serve(parts, settings.port))


async def _serve(parts: "TorchParts", port: int) -> None:
    with socket.create_server(("127.0.0.1", port), backlog=BACKLOG) as listening:
        config = uvicorn.Config(
            parts.app.asgi,
            log_level=logging.WARNING,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        server = _Server(config)
        sys.stdout.write(f'{{"port":{listening.getsockname()[1]}}}\n')
        sys.stdout.flush()
        await server.serve(sockets=[listening])
    await parts.answerer.engine.aclose()
    parts.cache.close(timeout_seconds=FLUSH_SECONDS)


def _quiet_libraries() -> None:
    """Let only errors through: what a child says is shown when it fails."""
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


class _Server(uvicorn.Server):
    """Ends by itself after a signal: uvicorn would raise it again, and blocks be lost."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._leave)
        yield

    def _leave(self) -> None:
        self.should_exit = True


if __name__ == "__main__":
    main()
