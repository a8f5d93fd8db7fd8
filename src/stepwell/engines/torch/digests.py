"""What a model's files are, in hex digests."""

import hashlib
from pathlib import Path

from stepwell.core.errors import ConfigError
from stepwell.engines.weights import digest_of

_SETTINGS = "config.json"


def weights_digest(folder: Path, cache: Path) -> str:
    """Return a digest of all weights of a model's folder, and of how they are put together.

    Each file's digest is remembered in ``cache``, so that only changed ones are read again.

    Raises:
        ConfigError: There are no weights, or not in safetensors.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights or not (folder / _SETTINGS).is_file():
        raise ConfigError(
            f"{folder} is not a model's folder: it needs {_SETTINGS} and weights in *.safetensors"
        )
    digest = hashlib.sha256((folder / _SETTINGS).read_bytes())
    for path in weights:
        remembered = cache / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.json"
        digest.update(f"{path.name} {digest_of(path, remembered)};".encode())
    return digest.hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()
