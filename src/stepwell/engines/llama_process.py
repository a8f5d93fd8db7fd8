"""The child process of the embedded engine: a llama.cpp server on a loopback port.

Run as ``python -m stepwell.engines.llama_process``. Reads one line of JSON, a `LlamaSettings`,
from standard input, and writes one line of JSON, a `Ready`, to standard output once it serves. Then
it lives until its input ends, or it is told to: when the parent stops it, or is no more. What its
slots hold is saved then, and whenever it is idle; the next one begins with it.
"""

import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

import msgspec

from stepwell.engines.llama_routes import LlamaRoutes
from stepwell.engines.saved_slots import SavedSlots
from stepwell.engines.served_process import Ready
from stepwell.engines.warm_slots import IDLE_SECONDS, Restored, WarmSlots

if TYPE_CHECKING:
    import xllamacpp

HTTP_THREADS = 128
"""Connections served at once. llama.cpp's server gives a thread to each connection for as long
as it is open, idle or not. By default, a burst of connections that then lie idle, 20 at times,
shuts out the next one until the server closes some: 5 to over 15 seconds were seen."""

ERRORS_ONLY = 1
"""llama.cpp's verbosity."""

NEVER_ALIKE = 1.0
"""A share of the prompt that none is above: see `_start`."""


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """What the child must know."""

    weights: str
    """Path of the GGUF file."""
    model: str
    """Name the model is served under."""
    api_key: str = field(repr=False)
    port: int
    """0 takes a free one."""
    threads: int
    slots: int
    """Requests generated at once; further ones wait."""
    context_tokens: int
    """Prompt and answer together, for each slot."""
    answer_tokens: int
    """Where a request does not say: so small a model may never stop by itself."""
    prompt_cache_mib: int
    """Memory for the prompts of slots that went to other requests."""
    saved_in: str | None = None
    """Folder for what the slots hold; ``None``: it ends with the process."""
    made_by: str = ""
    """What must be the same for that to be of use."""


def main() -> None:
    """Serve until standard input ends, or SIGTERM."""
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=LlamaSettings)
    os.umask(0o077)  # The server's own files hold what was asked.
    server = _start(settings)  # held here, because it serves only while something holds it
    port = urlsplit(server.listening_address).port or 0
    warm = _warm_slots(settings, port)
    signal.signal(signal.SIGTERM, _end)
    try:
        ready = Ready(port, "" if warm is None else _note(warm.restore()))
        sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
        sys.stdout.flush()
        _live(warm)
    except _Ended:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if warm is not None:
        warm.save_at_the_end()
    # Not by returning: the server's destructor would wait for answers that nobody reads.
    os._exit(0)


def _note(restored: Restored) -> str:
    notes = [f"it still holds {restored.tokens} tokens of prompts"] if restored.slots else []
    if restored.refused:
        notes.append(f"{restored.refused} saved prompts are of no use, and will be computed anew")
    return "; ".join(notes)


class _Ended(Exception):
    """The parent said so."""


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Ended


def _live(warm: WarmSlots | None) -> None:
    """Return when standard input ends."""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], IDLE_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            return
        if warm is not None and not readable:
            warm.look(time.monotonic())


def _warm_slots(settings: LlamaSettings, port: int) -> WarmSlots | None:
    if settings.saved_in is None:
        return None
    files = SavedSlots(Path(settings.saved_in), settings.made_by)
    return WarmSlots(LlamaRoutes(port, settings.api_key), files, settings.slots)


def _start(settings: LlamaSettings) -> "xllamacpp.Server":
    import xllamacpp  # noqa: PLC0415  (an extra: this module must import without it)

    params = xllamacpp.CommonParams()
    params.model.path = settings.weights
    params.model_alias = {settings.model}
    params.hostnames = ["127.0.0.1"]
    params.port = settings.port
    params.api_keys = [settings.api_key]
    params.n_threads_http = HTTP_THREADS
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.n_parallel = settings.slots
    params.n_ctx = settings.context_tokens * settings.slots
    params.n_predict = settings.answer_tokens
    params.cache_ram_mib = settings.prompt_cache_mib
    if settings.prompt_cache_mib:
        # By default, a slot of which more than half would be kept is not saved to the prompt cache
        # before another conversation takes it: with a long system prompt that is every time. As
        # if nothing were ever alike, all that a slot holds is saved, and the best is loaded. Which
        # slot that is, the caller says (`SlottedUpstream`).
        params.slot_prompt_similarity = NEVER_ALIKE
    params.endpoint_metrics = True
    params.slot_save_path = "" if settings.saved_in is None else f"{settings.saved_in}/"
    params.use_jinja = True
    params.verbosity = ERRORS_ONLY
    # A page, and an endpoint that shows one caller's prompts to another: not for a shared engine.
    params.ui = False
    params.endpoint_slots = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
