"""Files that are there whole, or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from stepwell.core.errors import ConfigError

_NEW_FILE_MODE = 0o666


@contextmanager
def written_aside(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of ``path`` when the block ends well.

    Whoever reads ``path`` sees the old file or the new one; after an error it is the old one.
    What is no plain file, such as ``/dev/stdout``, is written as it is.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as plain:
                yield plain
            return
        with _aside(path) as file:
            yield file
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def _aside(path: Path) -> Iterator[BinaryIO]:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.resolve().parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.chmod(name, _NEW_FILE_MODE & ~_umask())  # noqa: PTH101
        os.replace(name, path.resolve())  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise


def _umask() -> int:
    """Return the process's mask: `mkstemp` makes files that only their owner can read."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
