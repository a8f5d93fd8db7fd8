"""What a prefix from the files saves in a real vLLM: computed, in vLLM's memory, or loaded.

Run it from the project root, after ``scripts/vllm-suite`` has installed vLLM; a start takes a
minute: ``STEPWELL_VLLM_PYTHON=... STEPWELL_VLLM_MODEL=... PYTHONPATH=tests
python benchmarks/vllm_prefixes.py [--smoke] [--json out.json]``.

A prompt of random tokens is asked three times, for one token: new (``computed``), again
(``memory``), and again after vLLM was told to forget (``loaded``). ``peer`` is vLLM's own
ExampleConnector, which keeps whole prompts as safetensors. All in turns in one server, medians of
the rounds; ``x`` is how many times faster than computed in the same server. CPU counts the server
and its children.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from report import parse_arguments, print_table, write
from support.vllm_server import Installed, VllmServer, connector_config


def example_config(folder: Path) -> dict[str, object]:
    """Return what vLLM's own connector is started with."""
    return {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": str(folder)},
    }


def measure(server: VllmServer, tokens: int, drawn: Random) -> dict[str, tuple[float, float]]:
    """Return wall and CPU seconds of one prompt in its three states."""
    prompt = [drawn.randrange(500, 40_000) for _ in range(tokens)]

    def ask() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), server.cpu_seconds()
        server.complete(prompt, max_tokens=1)
        return time.perf_counter() - wall, server.cpu_seconds() - cpu

    computed, memory = ask(), ask()
    time.sleep(1.0)  # Blocks are written behind the answer.
    server.reset()
    return {"computed": computed, "memory": memory, "loaded": ask()}


def run(
    installed: Installed, name: str, config: Callable[[Path], dict[str, object]], *, smoke: bool
) -> list[dict[str, object]]:
    """Return the rows of one server."""
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="stepwell-vllm-") as made:
        folder = Path(made)
        options = ["--kv-transfer-config", json.dumps(config(folder / "kv"))]
        server = VllmServer(installed, folder / "log", options)
        server.start()
        try:
            drawn = Random(1)
            measure(server, 100, drawn)
            for tokens in (500,) if smoke else (500, 1000, 2000):
                rounds = [measure(server, tokens, drawn) for _ in range(1 if smoke else 3)]
                rows += _rows(name, tokens, rounds)
        finally:
            server.stop()
    return rows


def _rows(
    name: str, tokens: int, rounds: list[dict[str, tuple[float, float]]]
) -> list[dict[str, object]]:
    def median(state: str, which: int) -> float:
        return statistics.median(one[state][which] for one in rounds)

    return [
        {
            "connector": name,
            "tokens": tokens,
            "prefix": state,
            "ms": median(state, 0) * 1e3,
            "CPU ms": median(state, 1) * 1e3,
            "x": median("computed", 0) / median(state, 0),
            "x CPU": median("computed", 1) / max(median(state, 1), 0.01),
        }
        for state in ("computed", "memory", "loaded")
    ]


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments(__doc__ or "")
    python, model = os.environ.get("STEPWELL_VLLM_PYTHON"), os.environ.get("STEPWELL_VLLM_MODEL")
    if not python or not model:
        sys.exit("needs vLLM: scripts/vllm-suite installs it, and says where")
    installed = Installed(Path(python), Path(model))
    results = run(installed, "stepwell", connector_config, smoke=arguments.smoke)
    if not arguments.smoke:
        results += run(installed, "peer", example_config, smoke=False)
    print_table(results, ["connector", "tokens", "prefix", "ms", "CPU ms", "x", "x CPU"])
    write("vllm_prefixes", results, arguments.json)


if __name__ == "__main__":
    main()
