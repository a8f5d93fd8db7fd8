"""The embedded engine: a small language model in a process of its own, watched from here."""

import importlib.metadata
import importlib.util
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from stepwell.core.errors import ConfigError
from stepwell.engines.llama_process import LlamaSettings
from stepwell.engines.saved_slots import folder_of, remove_others
from stepwell.engines.served_process import EngineAddress, ServedProcess
from stepwell.engines.weights import digest_of, find_weights

MODEL = "smollm2-135m-instruct"
"""Name the model is served under."""

START_TIMEOUT_SECONDS = 120.0
"""For loading the model. A second or two on an idle machine."""


@dataclass(frozen=True, slots=True)
class EngineBounds:
    """How much the engine may do and hold at once."""

    threads: int = 1
    """Processors to compute on. On a machine that does other work too, one is faster than all: the
    threads wait for each other."""
    slots: int = 2
    """Requests generated at once; further ones wait."""
    context_tokens: int = 4096
    """Prompt and answer together, for each slot. Costs 23 KB a token."""
    answer_tokens: int = 512
    """The longest answer where a request sets no limit of its own."""
    prompt_cache_mib: int = 128
    """Memory for prompts whose slot went to another request, 23 KB a token; the oldest leave."""


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
        bounds: EngineBounds | None = None,
        saved_in: Path | None = None,
    ) -> None:
        """Describe the engine.

        Args:
            data_dir: Where the digest of the weights is remembered.
            report: Takes a line for the operator at each start, death and restart. Called
                from another thread; must not raise.
            bounds: How much it may do and hold.
            saved_in: Folder in which what the slots hold is saved when the engine is idle or
                stopped, at most as many bytes as the slots take in memory. The next engine with
                the same weights, version and context begins with it. ``None``: it is not saved.
        """
        self._data_dir = data_dir
        self._saved_in = saved_in
        self._report = report
        bounds = bounds or EngineBounds()
        self._settings = LlamaSettings(
            weights="",
            model=MODEL,
            api_key=secrets.token_urlsafe(32),
            port=0,
            threads=bounds.threads,
            slots=bounds.slots,
            context_tokens=bounds.context_tokens,
            answer_tokens=bounds.answer_tokens,
            prompt_cache_mib=bounds.prompt_cache_mib,
        )
        self._process = ServedProcess(
            "embedded engine",
            "stepwell.engines.llama_process",
            start_timeout_seconds=START_TIMEOUT_SECONDS,
            report=report,
        )

    @property
    def pid(self) -> int | None:
        """Process id of the running child."""
        return self._process.pid

    def start(self) -> EngineAddress:
        """Start the engine and return when it serves. Once in an engine's life.

        Raises:
            ConfigError: The engine or its weights are not installed, or it cannot run here;
                the message says what to do, or what the engine said.
        """
        identity = engine_identity(self._data_dir)
        weights = find_weights()
        settings = replace(self._saved(identity), weights=str(weights))
        self._report(f"embedded engine: loading {weights.name}")

        def line(port: int) -> bytes:
            return msgspec.json.encode(replace(settings, port=port))

        port = self._process.start(line)
        return EngineAddress(
            base_url=f"http://127.0.0.1:{port}/v1",
            api_key=self._settings.api_key,
            model=MODEL,
            identity=identity,
            slots=settings.slots,
        )

    def stop(self) -> None:
        """Stop the engine; requests in progress break off. Returns when the process is gone."""
        self._process.stop()

    def _saved(self, identity: str) -> LlamaSettings:
        """Choose the folder for what the slots hold, and remove those of other engines."""
        if self._saved_in is None:
            return self._settings
        made_by = f"{identity} context {self._settings.context_tokens}"
        folder = folder_of(self._saved_in, made_by)
        if removed := remove_others(folder):
            self._report(f"embedded engine: removed the saved prompts of {removed} other versions")
        return replace(self._settings, saved_in=str(folder), made_by=made_by)
