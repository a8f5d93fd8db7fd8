"""The embedded engine: a small language model in a process of its own, watched from here."""

import importlib.metadata
import importlib.util
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from stepwell.core.errors import ConfigError
from stepwell.engines.llama_child import LlamaChild
from stepwell.engines.llama_process import LlamaSettings
from stepwell.engines.weights import digest_of, find_weights

MODEL = "smollm2-135m-instruct"
"""Name the model is served under."""

RESTART_PAUSES_SECONDS = (0.2, 1.0, 5.0, 30.0)
"""Before each start after the child ended; from the beginning again once one has succeeded."""

START_TIMEOUT_SECONDS = 120.0
"""For loading the model. A second or two on an idle machine."""

STOP_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """How to reach the engine, as an `HttpUpstream` needs it. The same across its restarts."""

    base_url: str
    api_key: str = field(repr=False)
    model: str
    identity: str


def engine_identity(data_dir: Path) -> str:
    """Return what makes the engine's answers its own: its version and the digest of its weights.

    Costs a read of the weights, once; then it is remembered in ``data_dir``.

    Raises:
        ConfigError: The engine or its weights are not installed.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigError(
            "the embedded engine needs the package xllamacpp, which is not installed: "
            "in a clone of Stepwell, run `pip install '.[embedded]'`"
        )
    digest = digest_of(find_weights(), data_dir / "weights.json")
    return f"xllamacpp {importlib.metadata.version('xllamacpp')} sha256:{digest}"


class EmbeddedEngine:
    """Starts the engine's process, starts it again when it dies, and stops it.

    A process of its own, because the gateway's workers share it, a crash in native code takes
    none of them along, and its work does not hold their interpreter lock. It serves on the
    loopback interface, on a port that was free, to those who have the random key.

    Methods block: from async code, call them by `asyncio.to_thread`. A process that is
    *forked* from this one keeps the engine alive by keeping its pipe open; spawned ones do not.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        report: Callable[[str], None],
        threads: int = 1,
        slots: int = 2,
        context_tokens: int = 4096,
        answer_tokens: int = 512,
        prompt_cache_mib: int = 128,
    ) -> None:
        """Describe the engine.

        Args:
            data_dir: Where the digest of the weights is remembered.
            report: Takes a line for the operator at each start, death and restart. Called
                from another thread; must not raise.
            threads: Processors to compute on. On a machine that does other work too, one is
                faster than all: the threads wait for each other.
            slots: Requests generated at once; further ones wait.
            context_tokens: Prompt and answer together, for each slot. Costs 23 KB a token.
            answer_tokens: The longest answer where a request sets no limit of its own.
            prompt_cache_mib: Memory for prompts whose slot went to another request.
        """
        self._data_dir = data_dir
        self._report = report
        self._settings = LlamaSettings(
            weights="",
            model=MODEL,
            api_key=secrets.token_urlsafe(32),
            port=0,
            threads=threads,
            slots=slots,
            context_tokens=context_tokens,
            answer_tokens=answer_tokens,
            prompt_cache_mib=prompt_cache_mib,
        )
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._child: LlamaChild | None = None
        self._supervisor: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the running child."""
        return self._child.pid if self._child else None

    def start(self) -> EngineAddress:
        """Start the engine and return when it serves. Once in an engine's life.

        Raises:
            ConfigError: The engine or its weights are not installed, or it cannot run here;
                the message says what to do, or what the engine said.
        """
        identity = engine_identity(self._data_dir)
        weights = find_weights()
        self._settings = replace(self._settings, weights=str(weights))
        serving: Future[int] = Future()
        self._supervisor = threading.Thread(
            target=self._supervise, args=(serving,), name="embedded-engine", daemon=True
        )
        self._report(f"embedded engine: loading {weights.name}")
        self._supervisor.start()
        port = serving.result()
        return EngineAddress(
            base_url=f"http://127.0.0.1:{port}/v1",
            api_key=self._settings.api_key,
            model=MODEL,
            identity=identity,
        )

    def stop(self) -> None:
        """Stop the engine; requests in progress break off. Returns when the process is gone."""
        with self._lock:
            self._stopping.set()
            child = self._child
        if child is not None:
            child.stop(STOP_GRACE_SECONDS)
        if self._supervisor is not None:
            self._supervisor.join()

    def _supervise(self, serving: Future[int]) -> None:
        """Keep a child running until stopped; ``serving`` takes the first one's port, or error."""
        failures = 0
        while True:
            try:
                served, ended = self._live_once(serving)
            except OSError as error:  # no memory, process or file handle to be had just now
                served, ended = False, str(error)
            if not serving.done():
                serving.set_exception(ConfigError(f"the embedded engine did not start: {ended}"))
                return
            if self._stopping.is_set():
                return
            failures = 0 if served else failures + 1
            pause = RESTART_PAUSES_SECONDS[min(failures, len(RESTART_PAUSES_SECONDS) - 1)]
            self._report(f"embedded engine: ended, starts again in {pause:g} s: {ended}")
            self._stopping.wait(pause)

    def _live_once(self, serving: Future[int]) -> tuple[bool, str]:
        """Run one child to its end; return whether it ever served, and how it ended."""
        child = self._spawn()
        if child is None:
            return False, "it was stopped"
        port = child.wait_until_ready(START_TIMEOUT_SECONDS)
        if port is not None:
            self._settings = replace(self._settings, port=port)
            self._report(f"embedded engine: serves on port {port}")
            if not serving.done():
                serving.set_result(port)
        return port is not None, child.wait()

    def _spawn(self) -> LlamaChild | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            self._child = LlamaChild(self._settings)
            return self._child
