"""A real vLLM on the CPU, in its own environment."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "smollm2"

BLOCK_TOKENS = 32

START_SECONDS = 600.0
"""A minute on a machine that has nothing else to do."""

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # Threads that wait for each other by spinning are many times slower where others need the CPU.
    "OMP_WAIT_POLICY": "passive",
    # Has /reset_prefix_cache.
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
}


@dataclass(frozen=True)
class Installed:
    """Where vLLM and a model for it are."""

    python: Path
    model: Path


@dataclass(frozen=True)
class Completion:
    """An answer, and what it took."""

    text: str
    prompt_tokens: int
    cached_tokens: int


def connector_config(folder: Path, **more: object) -> dict[str, object]:
    """Return what ``--kv-transfer-config`` says."""
    return {
        "kv_connector": "StepwellConnector",
        "kv_connector_module_path": "stepwell.vllm.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"folder": str(folder), "max_bytes": 2 * 10**9, **more},
    }


def events_config(folder: Path) -> dict[str, object]:
    """Return what ``--kv-events-config`` says.

    An ``ipc://`` endpoint is bound by the server; so is ``tcp://*:5557``, but not
    ``tcp://127.0.0.1:5557``, to which it would connect.
    """
    return {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"ipc://{folder}/events",
        "replay_endpoint": f"ipc://{folder}/replay",
    }


class VllmServer:
    """One server, which can be stopped and started again. Blocking."""

    def __init__(self, installed: Installed, log: Path, options: Sequence[str]) -> None:
        """Start nothing yet.

        Args:
            installed: What to start.
            log: Where it writes to.
            options: Of its command line, besides those that all tests share.
        """
        self._installed = installed
        self._log = log
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """Where it listens; another one after each start."""
        return self._port

    @property
    def base_url(self) -> str:
        """Where its API is."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self, *options: str) -> None:
        """Start it, and wait until it answers.

        Args:
            options: For this time only.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        command = [
            *(str(self._installed.python), "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(self._installed.model), "--served-model-name", MODEL),
            *("--host", "127.0.0.1", "--port", str(self._port)),
            *("--dtype", "float32", "--enforce-eager", "--block-size", str(BLOCK_TOKENS)),
            *("--max-model-len", "4096", "--max-num-seqs", "8", "--enable-prompt-tokens-details"),
            *self._options,
            *options,
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **_ENVIRONMENT},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait()

    def stop(self) -> None:
        """Stop it as an operator does, and what it has started with it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60.0)
        # Its workers are processes of their own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def complete(self, prompt: Sequence[int], *, max_tokens: int = 8, **more: object) -> Completion:
        """Ask for a completion of token ids, greedily."""
        body = {"model": MODEL, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        reply = self.post("/v1/completions", {**body, **more})
        details = reply["usage"].get("prompt_tokens_details") or {}
        return Completion(
            reply["choices"][0]["text"],
            reply["usage"]["prompt_tokens"],
            details.get("cached_tokens") or 0,
        )

    def reset(self) -> None:
        """Make it forget its own prefix cache, once no page is in use any more."""
        for _ in range(200):
            if self.post("/reset_prefix_cache", {})["success"]:
                return
            time.sleep(0.05)
        raise TimeoutError(f"pages are still in use: {self.log_tail()}")

    def post(self, path: str, body: object) -> Any:
        """Return the reply's JSON."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300.0) as reply:
            is_json = reply.headers.get_content_type() == "application/json"
            return json.loads(reply.read()) if is_json else reply.read()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith((f"{name}{{", f"{name} ")) and all(one in line for one in wanted)
        )

    def cpu_seconds(self, name: str = "") -> float:
        """Return the CPU time so far of its processes' threads that live. Linux.

        Args:
            name: Only of processes whose name begins so: ``VLLM::Worker`` computes, loads and
                saves; ``VLLM::EngineCore`` schedules, and spins while it waits for the others.
        """
        assert self._process is not None
        taken_ns = 0
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                own, _, rest = (process / "stat").read_text().rpartition(")")
                # Behind the name: state, parent, group, session, ...
                if int(rest.split()[3]) == self._process.pid and f"({name}" in own:
                    for taken in process.glob("task/*/schedstat"):
                        taken_ns += int(taken.read_text().split()[0])
        return taken_ns / 1e9

    def log_tail(self) -> str:
        """Return the end of its log."""
        return self._log.read_text(errors="replace")[-4000:]

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5.0)
                return
            time.sleep(0.5)
        self.stop()
        raise TimeoutError(f"vLLM did not start: {self.log_tail()}")
