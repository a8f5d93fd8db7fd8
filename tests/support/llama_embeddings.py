"""llama.cpp as a server of vectors: the embedded model's weights, the mean of its last layer.

By hand: ``python -m support.llama_embeddings``; it ends with its standard input.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from stepwell.engines.weights import find_weights


@contextmanager
def llama_embeddings() -> Iterator[str]:
    """Serve until the block ends; yield the base URL."""
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        port = int(it.stdout.readline())
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            it.kill()


def main() -> None:
    """Print the port, and serve until standard input ends."""
    import xllamacpp  # noqa: PLC0415  (an extra)

    params = xllamacpp.CommonParams()
    params.model.path = str(find_weights())
    params.model_alias = {"smol"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(urlsplit(server.listening_address).port, flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main()
