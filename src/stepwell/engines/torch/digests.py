"""What a model's files are, in hex digests."""

import hashlib
from pathlib import Path

from stepwell.core.errors import ConfigError
from stepwell.engines.weights import digest_of

_SETTINGS = "config.json"

_BESIDE = (
    "chat_template.jinja",
    "generation_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
"""What else decides how a request is read; not every model has each."""


def weights_digest(folder: Path, cache: Path) -> str:
    """Return a digest of a model's folder: weights, how they are put together, how text is read.

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
    for path in (folder / name for name in _BESIDE):
        if path.is_file():
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()};".encode())
    for path in weights:
        remembered = cache / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.json"
        digest.update(f"{path.name} {digest_of(path, remembered)};".encode())
    return digest.hexdigest()


def text_digest(text: str) -> str:
    """Return the SHA-256 of ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()
