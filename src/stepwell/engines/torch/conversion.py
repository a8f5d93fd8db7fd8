"""A GGUF file as a folder of safetensors, made once."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from stepwell.core.errors import ConfigError

CONVERSION = 1
"""Changes whenever the same GGUF file comes out otherwise: part of the folder's name."""


_ASIDE = ".converting-"
"""Begins the names of folders that are not done yet."""


def converted(gguf: Path, sha256: str, cache: Path) -> Path:
    """Return the folder with the model in ``gguf``, made if it is not there.

    The first time takes 20 s for 135 million weights, as float32: four bytes each on disk. Blocks.
    Of several processes one converts, and the others wait for it.

    Args:
        gguf: The file.
        sha256: Its digest, in hex.
        cache: Where the folder is kept.

    Raises:
        ConfigError: It is not a model that can be converted.
        OSError: ``cache`` cannot be written.
    """
    folder = cache / f"{gguf.stem}-{sha256[:16]}-{CONVERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache):
        if not folder.is_dir():  # another process was faster
            _make(gguf, folder, cache)
    return folder


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Keep other processes from converting into ``cache``, as long as this one lives."""
    descriptor = os.open(cache / "conversion.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(gguf: Path, folder: Path, cache: Path) -> None:
    for left in cache.glob(f"{_ASIDE}*"):
        shutil.rmtree(left, ignore_errors=True)  # whoever made it is dead, or would have the lock
    aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=cache))
    try:
        _convert(gguf, aside)
        for written in aside.iterdir():
            _sync(written)
        aside.rename(folder)
        _sync(cache)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _convert(gguf: Path, folder: Path) -> None:
    given: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    try:
        network = AutoModelForCausalLM.from_pretrained(
            gguf.parent, dtype=torch.float32, trust_remote_code=False, **given
        )
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, trust_remote_code=False, **given)
    except (ValueError, KeyError, RuntimeError) as error:
        raise ConfigError(f"{gguf} is not a model that can be converted: {error}") from error
    # They are floats now; with these marks, transformers would refuse to write them.
    network.hf_quantizer = None
    network.is_quantized = False
    network.quantization_method = None
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
