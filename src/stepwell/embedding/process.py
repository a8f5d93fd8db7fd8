"""The host's embedder: a process that loads the model once, for all workers of the host.

Run as ``python -m stepwell.embedding.process``. Reads one line of JSON, `ProcessSettings`, from
standard input, and writes a line to standard output once it serves. Then it lives until its input
ends: when the parent stops it, or is no more.
"""

import asyncio
import os
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepwell.embedding.encoder import Encoder

READY = b"ready\n"

PRIVATE = 0o077
"""Mask of the socket: nobody else's processes may connect."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """What the child must know."""

    recipe: str
    """Name of a bundled embedder."""
    cache: str
    """Folder of converted models."""
    socket: str
    threads: int
    queue: int
    """Texts that wait or are computed; further ones fail at once."""


def main() -> None:
    """Serve until standard input ends."""
    # Not through os.environ: numpy's library reads it, once, when it is loaded.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    os.putenv("OMP_NUM_THREADS", "1")
    from stepwell.embedding.opening import open_encoder  # noqa: PLC0415
    from stepwell.embedding.recipes import RECIPES  # noqa: PLC0415

    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=ProcessSettings)
    threading.Thread(target=_end_with_input, daemon=True).start()
    encoder = open_encoder(RECIPES[settings.recipe], Path(settings.cache))
    Path(settings.socket).unlink(missing_ok=True)
    os.umask(PRIVATE)
    asyncio.run(_serve(encoder, settings))


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    # Not by returning: threads that compute would be waited for.
    os._exit(0)


async def _serve(encoder: "Encoder", settings: ProcessSettings) -> None:
    from stepwell.embedding.comparison import comparer_of  # noqa: PLC0415
    from stepwell.embedding.frames import Hello  # noqa: PLC0415
    from stepwell.embedding.recipes import RECIPES, model_id  # noqa: PLC0415
    from stepwell.embedding.service import Connection, Desk  # noqa: PLC0415

    hello = Hello(model_id(RECIPES[settings.recipe]))
    desk = Desk(
        encoder, threads=settings.threads, queue=settings.queue, scorer=comparer_of(encoder)
    )
    server = await asyncio.get_running_loop().create_unix_server(
        partial(Connection, desk, hello), settings.socket
    )
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    await server.serve_forever()


if __name__ == "__main__":
    main()
