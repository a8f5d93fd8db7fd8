"""``stepwell serve`` in a process of its own, with settings of a test's own."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import tomli_w

from support.gateway import Gateway

SECRET = "a secret that all gateways share"

_RUN = "import sys; from stepwell.cli.main import main; sys.exit(main(sys.argv[1:]))"
_PATIENCE_SECONDS = 60.0


@dataclass
class Command(Gateway):
    """A running gateway, and its process."""

    process: asyncio.subprocess.Process
    log: Path

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        if self.process.returncode is None:
            task = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
            for process in (self.process.pid, *map(int, Path(task).read_text().split())):
                os.kill(process, number)

    def stop(self) -> None:
        """Ask it to stop, as a service manager does."""
        self.process.send_signal(signal.SIGTERM)

    async def ended(self) -> int:
        """Wait for its end; return its exit code."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def running_command(
    directory: Path, settings: dict[str, Any], *, before: str = "", port: int = 0
) -> AsyncIterator[Command]:
    """Run a gateway until the block ends, then stop it and see that it left no traceback.

    Args:
        directory: Where its settings, data and log are.
        settings: Its settings file; the secret is that of all such gateways.
        before: Python that its process runs first.
        port: Where it listens; any, if it is 0.
    """
    directory.mkdir(exist_ok=True)  # noqa: ASYNC240  (a test's own directory)
    file, log = directory / "stepwell.toml", directory / "log"
    auth = {"namespace_secret_env": "NAMESPACE_SECRET"}
    file.write_text(tomli_w.dumps({"data_dir": "data", "auth": auth, **settings}))
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", f"{before}\n{_RUN}", "serve"),
            *("--config", str(file), "--port", str(port)),
            stderr=stderr,
            env={**os.environ, "NAMESPACE_SECRET": SECRET},
        )
    try:
        async with aiohttp.ClientSession() as http:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while (listens := re.search(rb"listens on (\S+)/v1", log.read_bytes())) is None:
                    assert process.returncode is None, log.read_text()
                    await asyncio.sleep(0.02)
                command = Command(listens[1].decode(), http, process, log)
                while not await is_ready(command):  # noqa: ASYNC110  (nobody tells)
                    await asyncio.sleep(0.02)
            yield command
            command.signal(signal.SIGCONT)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
    assert b"Traceback" not in log.read_bytes()


async def is_ready(gateway: Gateway) -> bool:
    """Return whether it wants requests."""
    try:
        return (await gateway.get("/readyz")).status == 200
    except aiohttp.ClientError:
        return False
