"""The child process of the embedded engine: a llama.cpp server on a loopback port.

Run as ``python -m stepwell.engines.llama_process``. Reads one line of JSON, a `LlamaSettings`,
from standard input, and writes one line of JSON, ``{"port": ...}``, to standard output once it
serves. Then it lives until its input ends: when the parent stops it, or is no more.
"""

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

if TYPE_CHECKING:
    import xllamacpp

HTTP_THREADS = 128
"""Connections served at once. llama.cpp's server gives a thread to each connection for as long
as it is open, idle or not. By default, a burst of connections that then lie idle, 20 at times,
shuts out the next one until the server closes some: 5 to over 15 seconds were seen."""

ERRORS_ONLY = 1
"""llama.cpp's verbosity."""


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


def main() -> None:
    """Serve until standard input ends."""
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=LlamaSettings)
    server = _start(settings)  # held here, because it serves only while something holds it
    port = urlsplit(server.listening_address).port
    sys.stdout.write(f'{{"port":{port}}}\n')
    sys.stdout.flush()
    sys.stdin.buffer.read()
    # Not by returning: the server's destructor would wait for answers that nobody reads.
    os._exit(0)


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
    params.use_jinja = True
    params.verbosity = ERRORS_ONLY
    # A page, and an endpoint that shows one caller's prompts to another: not for a shared engine.
    params.ui = False
    params.endpoint_slots = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
