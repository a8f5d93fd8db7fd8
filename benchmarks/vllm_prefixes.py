"""What a prefix from the files saves in a real vLLM: computed, in vLLM's memory, or loaded.

Run it from the project root, after ``scripts/vllm-suite`` has installed vLLM; a start takes a
minute: ``STEPWELL_VLLM_PYTHON=... STEPWELL_VLLM_MODEL=... PYTHONPATH=tests
python benchmarks/vllm_prefixes.py [--smoke] [--json out.json]``.

A prompt of random tokens is asked three times, for one token: new (``computed``), again
(``memory``), and again after vLLM was told to forget (``loaded``). ``peer`` is vLLM's own
ExampleConnector, which keeps whole prompts as safetensors. All in turns in one server, medians of
the rounds; ``x`` is how many times faster than computed in the same server.

``worker CPU`` is that of the process that loads and computes. Those around it spin while they wait
for it, which is vLLM's way: ``CPU`` counts them, too, so that more of it is waiting the more others
the machine has to do. What is done behind the answer, such as saving, is in neither.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from operator import sub
from pathlib import Path
from random import Random

from report import parse_arguments, print_table, write
from support.vllm_server import Installed, VllmServer, connector_config

WORKER = "VLLM::Worker"
SETTLING_SECONDS = 1.5
COLUMNS = ["connector", "tokens", "prefix", "ms", "x", "CPU ms", "worker CPU ms", "x CPU"]


def example_config(folder: Path) -> dict[str, object]:
    """Return what vLLM's own connector is started with."""
    return {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": str(folder)},
    }


@dataclass(frozen=True)
class Taken:
    """Seconds that one answer took."""

    wall: float
    cpu: float
    worker_cpu: float


def clocks(server: VllmServer) -> tuple[float, float, float]:
    """Return the time, and what CPU all processes and the worker have taken so far."""
    return time.perf_counter(), server.cpu_seconds(), server.cpu_seconds(WORKER)


def measure(server: VllmServer, tokens: int, drawn: Random) -> dict[str, Taken]:
    """Return what one prompt took in its three states."""
    prompt = [drawn.randrange(500, 40_000) for _ in range(tokens)]

    def ask() -> Taken:
        # Blocks are written behind the answer, and for a second after it vLLM spins.
        time.sleep(SETTLING_SECONDS)
        before = clocks(server)
        server.complete(prompt, max_tokens=1)
        return Taken(*map(sub, clocks(server), before))

    computed, memory = ask(), ask()
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


def _rows(name: str, tokens: int, rounds: list[dict[str, Taken]]) -> list[dict[str, object]]:
    def median(state: str) -> Taken:
        taken = [astuple(one[state]) for one in rounds]
        return Taken(*map(statistics.median, zip(*taken, strict=True)))

    computed = median("computed")
    return [
        {
            "connector": name,
            "tokens": tokens,
            "prefix": state,
            "ms": median(state).wall * 1e3,
            "x": computed.wall / median(state).wall,
            "CPU ms": median(state).cpu * 1e3,
            "worker CPU ms": median(state).worker_cpu * 1e3,
            "x CPU": computed.worker_cpu / median(state).worker_cpu,
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
    print_table(results, COLUMNS)
    write("vllm_prefixes", results, arguments.json)


if __name__ == "__main__":
    main()
