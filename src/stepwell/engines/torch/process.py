"""The torch engine's process, seen from the gateway's. Needs no torch itself."""

import importlib.metadata
import importlib.util
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from stepwell.core.errors import ConfigError
from stepwell.engines.served_process import EngineAddress, ServedProcess
from stepwell.engines.torch.digests import weights_digest
from stepwell.engines.weights import digest_of, find_weights

START_TIMEOUT_SECONDS = 600.0
"""For loading the model: seconds; 20 and more the first time, when a GGUF file is converted."""

PACKAGES = ("torch", "transformers", "gguf", "accelerate")
"""What the extra ``torch`` brings; the last two are for GGUF files."""


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """What the child must know."""

    weights: str
    """Path of a GGUF file, or of a folder with safetensors."""
    model: str
    """Name the model is served under."""
    cache: str
    """Folder for converted models and digests."""
    kv_folder: str
    """Folder for KV blocks on disk."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: int = 1
    slots: int = 2
    block_tokens: int = 16
    memory_bytes: int = 1 << 30
    """For KV blocks as computed."""
    int8_bytes: int = 0
    """For KV blocks in int8; 0: there are none."""
    disk_bytes: int = 4 << 30
    """For KV blocks on disk; 0: there are none."""
    tenant_share: float = 1.0
    """Of each of them, what one tenant's blocks may take."""
    api_key: str = field(default="", repr=False)
    port: int = 0
    """0 takes a free one."""


def check_installed() -> None:
    """Refuse to go on without the extra.

    Raises:
        ConfigError: Says what to install.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the torch engine needs the package {missing[0]}, which is not installed: in a clone"
            " of Stepwell, run `pip install -r requirements/torch.txt` (docs/how-to/own-kv.md)"
        )


def torch_identity(settings: TorchSettings) -> str:
    """Return what makes the engine's answers its own: versions, weights, precision.

    Costs a read of the weights, once; then their digest is remembered.

    Raises:
        ConfigError: The extra is not installed, or there are no weights.
    """
    check_installed()
    weights, cache = Path(settings.weights), Path(settings.cache)
    if weights.is_file():
        digest = digest_of(weights, cache / f"{weights.name}.json")
    else:
        digest = weights_digest(weights, cache)
    versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES[:2])
    exact = "" if not settings.int8_bytes else " int8 KV"
    return f"{versions} {settings.dtype}{exact} sha256:{digest}"


def packaged_weights() -> Path:
    """Return the model that comes along: that of the embedded engine.

    Raises:
        ConfigError: It is not installed.
    """
    return find_weights()


class TorchEngine:
    """Starts the engine's process, starts it again when it dies, and stops it.

    As `stepwell.engines.embedded.EmbeddedEngine`: methods block.
    """

    def __init__(
        self, name: str, module: str, settings: TorchSettings, *, report: Callable[[str], None]
    ) -> None:
        """Describe the engine.

        Args:
            name: What it is, for the operator.
            module: What the process runs; it puts the engine and its cache together.
            settings: Without port and key.
            report: Takes a line for the operator at each start, death and restart. Called from
                another thread; must not raise.
        """
        self._settings = replace(settings, api_key=secrets.token_urlsafe(32))
        self._report = report
        self._name = name
        self._process = ServedProcess(
            name, module, start_timeout_seconds=START_TIMEOUT_SECONDS, report=report
        )

    @property
    def pid(self) -> int | None:
        """Process id of the running child."""
        return self._process.pid

    def start(self) -> EngineAddress:
        """Start the engine and return when it serves. Once in an engine's life.

        Raises:
            ConfigError: Something is not installed, or it cannot run here; the message says what
                to do, or what the engine said.
        """
        identity = torch_identity(self._settings)
        self._report(f"{self._name}: loading {Path(self._settings.weights).name}")

        def line(port: int) -> bytes:
            return msgspec.json.encode(replace(self._settings, port=port))

        port = self._process.start(line)
        return EngineAddress(
            base_url=f"http://127.0.0.1:{port}/v1",
            api_key=self._settings.api_key,
            model=self._settings.model,
            identity=identity,
        )

    def stop(self) -> None:
        """Stop it; requests in progress break off. Returns when the process is gone."""
        self._process.stop()
