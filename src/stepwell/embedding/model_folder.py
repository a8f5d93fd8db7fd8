"""Converted models on disk: written aside, then renamed; checked whenever one is opened."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

MANIFEST = "manifest.json"

ABANDONED_AFTER_SECONDS = 3600.0


class Damaged(Exception):
    """A folder does not hold what its manifest says."""


def write_folder(folder: Path, files: Mapping[str, bytes | bytearray]) -> None:
    """Write ``files`` and their manifest as ``folder``: wholly, or not at all.

    Where another process was faster, its folder stays and nothing is written.

    Raises:
        OSError: The disk is full, or may not be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        for name, data in (*files.items(), (MANIFEST, msgspec.json.encode(digests))):
            _write(aside / name, data)
        _sync(aside)
        try:
            aside.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
        _sync(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Read every file and compare it with the manifest. Costs 0.1 s for 60 MB.

    Raises:
        Damaged: A file is missing or has changed, or there is no manifest.
    """
    try:
        digests = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=dict[str, str])
        for name, expected in digests.items():
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != expected:
                    raise Damaged(f"{folder / name} has changed")
    except (OSError, msgspec.MsgspecError) as error:
        raise Damaged(f"{folder}: {error}") from error


def remove_folder(folder: Path) -> None:
    """Remove a folder whatever it holds; processes that have mapped its files keep them."""
    if not folder.exists():
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        folder.rename(aside / "old")
    shutil.rmtree(aside, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes left that were killed while writing ``folder``."""
    for aside in folder.parent.glob(f".{folder.name}.*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - aside.stat().st_mtime > ABANDONED_AFTER_SECONDS:
                shutil.rmtree(aside, ignore_errors=True)


def _write(path: Path, data: bytes | bytearray) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
